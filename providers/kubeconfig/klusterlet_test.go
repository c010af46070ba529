// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	operatorfake "open-cluster-management.io/api/client/operator/clientset/versioned/fake"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

var klusterlets = schema.GroupResource{Group: operatorv1.GroupName, Resource: "klusterlets"}

func testKlusterlet() *operatorv1.Klusterlet {
	return &operatorv1.Klusterlet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "klusterlet", Labels: map[string]string{"a": "b"}, ResourceVersion: "7", CreationTimestamp: metav1.Now(),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
		},
		Spec:   operatorv1.KlusterletSpec{ClusterName: testCluster},
		Status: operatorv1.KlusterletStatus{ObservedGeneration: 3},
	}
}

// klusterletServer is an operator client whose answers to patches are errs in order, then success.
func klusterletServer(errs ...error) (client *operatorClientset, patches *[]clienttesting.PatchActionImpl) {
	fake := operatorfake.NewSimpleClientset()
	patches = &[]clienttesting.PatchActionImpl{}
	fake.PrependReactor("*", "klusterlets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok {
			return true, nil, fmt.Errorf("%s instead of a patch", action.GetVerb())
		}
		*patches = append(*patches, patch)
		if n := len(*patches); n <= len(errs) {
			return true, nil, errs[n-1]
		}
		return true, &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: patch.Name, UID: "stored"}}, nil
	})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: klusterletCRD}}
	return &operatorClientset{Interface: fake, apiExtClient: apiextensionsfake.NewClientset(crd)}, patches
}

func TestKlusterletIsApplied(t *testing.T) {
	client, patches := klusterletServer()
	klusterlet := testKlusterlet()
	before := klusterlet.DeepCopy()
	ctx, _ := testContext(t)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "other", FieldValidation: "Strict"}
	got, err := client.OperatorV1().Klusterlets().Create(ctx, klusterlet, options)
	if err != nil || got.UID != "stored" {
		t.Fatalf("got %v, %v", got, err)
	}
	if diff := cmp.Diff(before, klusterlet); diff != "" {
		t.Errorf("the argument is changed (-want +got):\n%s", diff)
	}
	if len(*patches) != 1 {
		t.Fatalf("%d patches", len(*patches))
	}
	patch := (*patches)[0]
	if patch.GetPatchType() != types.ApplyPatchType || patch.Name != "klusterlet" || patch.Subresource != "" {
		t.Errorf("patch is %s of %s %s", patch.GetPatchType(), patch.Name, patch.Subresource)
	}
	wantOptions := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager, FieldValidation: "Strict"}
	if diff := cmp.Diff(wantOptions, patch.PatchOptions); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	var object map[string]any
	if err := json.Unmarshal(patch.GetPatch(), &object); err != nil {
		t.Fatal(err)
	}
	spec, _ := object["spec"].(map[string]any)
	if spec["clusterName"] != testCluster {
		t.Errorf("spec is %v", spec)
	}
	delete(object, "spec")
	want := map[string]any{
		"apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
		"metadata": map[string]any{"name": "klusterlet", "labels": map[string]any{"a": "b"}},
	}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("all but the spec (-want +got):\n%s", diff)
	}
}

func TestKlusterletWaitsForItsCRD(t *testing.T) {
	missing := apierrors.NewNotFound(klusterlets, "")
	client, patches := klusterletServer(missing, missing, missing)
	ctx, _ := testContext(t)
	got, err := client.OperatorV1().Klusterlets().Create(ctx, testKlusterlet(), metav1.CreateOptions{})
	if err != nil || got.UID != "stored" || len(*patches) != 4 {
		t.Errorf("got %v, %v after %d patches", got, err, len(*patches))
	}
}

func TestKlusterletIsNotWaitedForWithoutEnd(t *testing.T) {
	missing := make([]error, 10_000)
	for i := range missing {
		missing[i] = apierrors.NewNotFound(klusterlets, "")
	}
	client, _ := klusterletServer(missing...)
	ctx, _ := testContext(t)
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := client.OperatorV1().Klusterlets().Create(ctx, testKlusterlet(), metav1.CreateOptions{})
	if err == nil || err.Error() != "the cluster does not serve Klusterlets within 10s after their CRD was created" {
		t.Errorf("got %v", err)
	}
}

func TestKlusterletIsNotWaitedForWithoutItsCRD(t *testing.T) {
	client, patches := klusterletServer(apierrors.NewNotFound(klusterlets, ""))
	client.apiExtClient = apiextensionsfake.NewClientset()
	ctx, _ := testContext(t)
	_, err := client.OperatorV1().Klusterlets().Create(ctx, testKlusterlet(), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || len(*patches) != 1 {
		t.Errorf("got %v after %d patches", err, len(*patches))
	}
}

func TestKlusterletErrorsPass(t *testing.T) {
	cases := []struct {
		name string
		err  error
		is   func(error) bool
	}{
		{"conflict", apierrors.NewConflict(klusterlets, "klusterlet", errors.New("x")), apierrors.IsConflict},
		{"forbidden", apierrors.NewForbidden(klusterlets, "klusterlet", errors.New("x")), apierrors.IsForbidden},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Klusterlet"}, "klusterlet", nil), apierrors.IsInvalid},
		{"unavailable", apierrors.NewServiceUnavailable("x"), apierrors.IsServiceUnavailable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client, patches := klusterletServer(c.err)
			ctx, _ := testContext(t)
			start := time.Now()
			_, err := client.OperatorV1().Klusterlets().Create(ctx, testKlusterlet(), metav1.CreateOptions{})
			if !c.is(err) || err.Error() != c.err.Error() {
				t.Errorf("got %v", err)
			}
			if len(*patches) != 1 || time.Since(start) > crdServedTimeout/2 {
				t.Errorf("%d patches in %s", len(*patches), time.Since(start))
			}
		})
	}
}

// The clients that the importer gets have that Create.
func TestClientsApplyTheKlusterlet(t *testing.T) {
	s, config := startSpoke(t, answer(200, `{"kind":"Klusterlet","apiVersion":"operator.open-cluster-management.io/v1","metadata":{"name":"klusterlet"}}`))
	ctx, _ := testContext(t)
	clients, err := mustConnect(t, config, patient()).clients()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.OperatorClient.OperatorV1().Klusterlets().Create(ctx, testKlusterlet(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request := s.requests[0]
	if request.Method != "PATCH" || !strings.HasPrefix(request.Header.Get("Content-Type"), string(types.ApplyPatchType)) {
		t.Errorf("sent %s with %s", request.Method, request.Header.Get("Content-Type"))
	}
}
