// Copyright Contributors to the Open Cluster Management project

package ocmhub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	operatorv1 "open-cluster-management.io/api/operator/v1"
	"open-cluster-management.io/ocm/manifests"
	"open-cluster-management.io/ocm/pkg/operator/helpers/chart"
)

const (
	// HubNamespace is where the hub's controllers live.
	HubNamespace = "open-cluster-management-hub"
	// OperatorNamespace is where the cluster-manager operator and the bootstrap account live.
	OperatorNamespace = "open-cluster-management"
	// BootstrapServiceAccount is the account, in OperatorNamespace, that agents register with.
	BootstrapServiceAccount = "agent-registration-bootstrap"
	// ControllerServiceAccount is the account, in HubNamespace, that the registration controller runs as.
	ControllerServiceAccount = "registration-controller-sa"
	// ClusterManagerName is the name of the ClusterManager of a hub.
	ClusterManagerName = "cluster-manager"

	bootstrapClusterRole        = "open-cluster-management:bootstrap"
	bootstrapClusterRoleBinding = "open-cluster-management:bootstrap:agent-registration"
	// invalidAnnotation asks library-go to remove an annotation; as a key the API server refuses it.
	invalidAnnotation = "eks.amazonaws.com/role-arn-"
)

// hubManifests are the embedded files that a registration controller without webhooks needs.
var hubManifests = []string{
	"cluster-manager/cluster-manager-namespace.yaml",
	"cluster-manager/hub/registration/clusterrole.yaml",
	"cluster-manager/hub/registration/clusterrolebinding.yaml",
	"cluster-manager/hub/registration/serviceaccount.yaml",
	// The account that creates ManifestWorks may name it as executor.
	"cluster-manager/hub/work/executor-admin-clusterrole.yaml",
}

const hubCRDs = "cluster-manager/hub/crds"

// InstallOptions says how the hub is reached from outside.
type InstallOptions struct {
	// APIServerURL is the address that managed clusters reach the hub at. Required.
	APIServerURL string
	// CAData is the PEM bundle that verifies it. Required.
	CAData []byte
}

// Install applies OCM's CRDs and RBAC, the bootstrap account, and the cluster-info that tells OCM's renderers
// the hub's address. The registration controller's role is that of a hub whose ClusterImporter gate is on.
// Installing twice is harmless.
func Install(ctx context.Context, config *rest.Config, o InstallOptions) error {
	if o.APIServerURL == "" || len(o.CAData) == 0 {
		return errors.New("the address and the CA bundle of the hub are required")
	}
	crds, bootstrap, err := chartObjects(ctx)
	if err != nil {
		return err
	}
	hub, err := hubObjects()
	if err != nil {
		return err
	}
	info, err := clusterInfo(o)
	if err != nil {
		return err
	}
	return applyObjects(ctx, config, slices.Concat(crds, hub, bootstrap, []*unstructured.Unstructured{info}))
}

// hubObjects renders the embedded manifests as the cluster-manager operator does. CRDs come first.
func hubObjects() ([]*unstructured.Unstructured, error) {
	values := manifests.HubConfig{
		ClusterManagerName:      ClusterManagerName,
		ClusterManagerNamespace: HubNamespace,
		OperatorNamespace:       OperatorNamespace,
		Replica:                 1,
		ClusterImporterEnabled:  true,
		ClusterProfileEnabled:   true,
	}
	entries, err := fs.ReadDir(manifests.ClusterManagerManifestFiles, hubCRDs)
	if err != nil {
		return nil, fmt.Errorf("list hub CRDs: %w", err)
	}
	files := make([]string, 0, len(entries)+len(hubManifests))
	for _, e := range entries {
		files = append(files, path.Join(hubCRDs, e.Name()))
	}
	files = append(files, hubManifests...)

	objects := make([]*unstructured.Unstructured, 0, len(files))
	for _, f := range files {
		o, err := render(f, values)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", f, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func render(file string, values manifests.HubConfig) (*unstructured.Unstructured, error) {
	text, err := manifests.ClusterManagerManifestFiles.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := template.New(path.Base(file)).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(out.Bytes(), &o.Object); err != nil {
		return nil, err
	}
	if isCRD(o) {
		// The conversion webhook is not here to answer.
		unstructured.RemoveNestedField(o.Object, "spec", "conversion")
	}
	annotations := o.GetAnnotations()
	delete(annotations, invalidAnnotation)
	o.SetAnnotations(annotations)
	return o, nil
}

// chartObjects takes the CRDs, the namespace and the bootstrap account from the cluster-manager chart.
func chartObjects(ctx context.Context) (crds, bootstrap []*unstructured.Unstructured, err error) {
	values := chart.NewDefaultClusterManagerChartConfig()
	values.CreateNamespace = true
	values.CreateBootstrapSA = true
	crdManifests, manifests, err := chart.RenderClusterManagerChart(ctx, values, OperatorNamespace)
	if err != nil {
		return nil, nil, fmt.Errorf("render cluster-manager chart: %w", err)
	}
	wanted := map[string]string{
		OperatorNamespace:           "Namespace",
		BootstrapServiceAccount:     "ServiceAccount",
		bootstrapClusterRole:        "ClusterRole",
		bootstrapClusterRoleBinding: "ClusterRoleBinding",
	}
	for _, m := range slices.Concat(crdManifests, manifests) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(m, &o.Object); err != nil {
			return nil, nil, fmt.Errorf("parse cluster-manager chart: %w", err)
		}
		switch {
		case isCRD(o):
			crds = append(crds, o)
		case wanted[o.GetName()] == o.GetKind():
			bootstrap = append(bootstrap, o)
			delete(wanted, o.GetName())
		}
	}
	if len(wanted) > 0 {
		return nil, nil, fmt.Errorf("the cluster-manager chart lacks %v", wanted)
	}
	return crds, bootstrap, nil
}

// clusterInfo is the public ConfigMap that kubeadm leaves in a cluster: address and CA, no user.
func clusterInfo(o InstallOptions) (*unstructured.Unstructured, error) {
	kubeconfig, err := yaml.Marshal(clientcmdapiv1.Config{
		APIVersion: "v1",
		Kind:       "Config",
		Clusters: []clientcmdapiv1.NamedCluster{{
			Cluster: clientcmdapiv1.Cluster{Server: o.APIServerURL, CertificateAuthorityData: o.CAData},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode cluster-info: %w", err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"namespace": "kube-public", "name": "cluster-info"},
		"data":       map[string]any{"kubeconfig": string(kubeconfig)},
	}}, nil
}

// SetClusterImporterGate creates the hub's ClusterManager, or updates it, so that the ClusterImporter gate is on
// or off. Nothing acts on it here: it is what components that look the gate up will find.
func SetClusterImporterGate(ctx context.Context, config *rest.Config, on bool) error {
	mode := operatorv1.FeatureGateModeTypeDisable
	if on {
		mode = operatorv1.FeatureGateModeTypeEnable
	}
	return applyObjects(ctx, config, []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": operatorv1.GroupVersion.String(),
		"kind":       "ClusterManager",
		"metadata":   map[string]any{"name": ClusterManagerName},
		"spec": map[string]any{
			"registrationConfiguration": map[string]any{
				"featureGates": []any{map[string]any{"feature": "ClusterImporter", "mode": string(mode)}},
			},
		},
	}}})
}

// InstallCAPI installs a CRD for Cluster API's Cluster that takes any content, for tests of what happens next
// to Cluster API. No controller of Cluster API comes with it.
func InstallCAPI(ctx context.Context, config *rest.Config) error {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return applyObjects(ctx, config, []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": crdGVR.GroupVersion().String(),
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":   "clusters.cluster.x-k8s.io",
			"labels": map[string]any{"cluster.x-k8s.io/v1beta1": "v1beta1"},
		},
		"spec": map[string]any{
			"group": "cluster.x-k8s.io",
			"scope": "Namespaced",
			"names": map[string]any{"kind": "Cluster", "listKind": "ClusterList", "plural": "clusters", "singular": "cluster"},
			"versions": []any{map[string]any{
				"name": "v1beta1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type":       "object",
					"properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	}}})
}
