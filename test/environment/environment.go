// Copyright Contributors to the Open Cluster Management project

// Package environment brings up what the end-to-end tests and the demo tell their story with: a hub with OCM's real
// registration controller and this project's importer, and clusters that exist already, each with a control plane of
// its own and a node whose pods run as processes of the real agents.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
	"open-cluster-management.io/import-provider/test/podrunner"
)

// Environment holds what all hubs and clusters of one run share. Stop ends everything that was started from it.
type Environment struct {
	// Dir holds logs and kubeconfigs.
	Dir string

	controlPlaneBin string
	agentBin        string
	componentBin    string

	lock  sync.Mutex // guards stops
	stops []func() error
}

const (
	// UnpullableRegistry is a registry whose images no cluster can pull.
	UnpullableRegistry = "unpullable.example.com"

	// tokenLifetime is that of the token a cluster owner hands out.
	tokenLifetime = time.Hour
)

// New builds what is not built yet, which takes minutes the first time; progress is told to the writer. Dir must exist.
func New(ctx context.Context, dir string, progress io.Writer) (*Environment, error) {
	e := &Environment{Dir: dir, componentBin: filepath.Join(dir, "bin")}
	var err error
	if e.controlPlaneBin, err = binaries.ControlPlane(ctx, progress); err != nil {
		return nil, fmt.Errorf("building the control plane: %w", err)
	}
	if e.agentBin, err = binaries.Agents(ctx, progress); err != nil {
		return nil, fmt.Errorf("building the agents: %w", err)
	}
	if err := os.MkdirAll(e.componentBin, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the commands: %w", err)
	}
	return e, component.Build(ctx, e.componentBin)
}

// Kubectl is the path of kubectl.
func (e *Environment) Kubectl() (string, error) { return binaries.Kubectl(e.controlPlaneBin) }

// Log is the path of the log of one process.
func (e *Environment) Log(name string) string { return filepath.Join(e.Dir, name+".log") }

func (e *Environment) onStop(stop func() error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.stops = append(e.stops, stop)
}

// Stop ends all processes, the last started first.
func (e *Environment) Stop() error {
	e.lock.Lock()
	defer e.lock.Unlock()
	var errs []error
	for _, stop := range slices.Backward(e.stops) {
		errs = append(errs, stop())
	}
	e.stops = nil
	return errors.Join(errs...)
}

func (e *Environment) startControlPlane(ctx context.Context, name string) (*harness.ControlPlane, error) {
	plane, err := harness.Start(ctx, harness.Options{
		Name: name, ControllerManager: true, BinDir: e.controlPlaneBin, LogDir: e.Dir,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the control plane of %s: %w", name, err)
	}
	e.onStop(plane.Stop)
	return plane, nil
}

// Hub is a hub whose registration controller and importer the caller starts, by one of two ways.
type Hub struct {
	*harness.ControlPlane
	environment *Environment
	name        string
}

// StartHub starts a control plane and installs OCM on it, without any controller.
func (e *Environment) StartHub(ctx context.Context, name string) (*Hub, error) {
	plane, err := e.startControlPlane(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := ocmhub.Install(ctx, plane.Config(), ocmhub.InstallOptions{APIServerURL: plane.URL(), CAData: plane.CAData()}); err != nil {
		return nil, fmt.Errorf("installing OCM on %s: %w", name, err)
	}
	return &Hub{ControlPlane: plane, environment: e, name: name}, nil
}

// StartRegistration starts OCM's own registration controller, with its own importer on when the gate is named. It lets
// every cluster join that registers.
func (h *Hub) StartRegistration(ctx context.Context, featureGates ...string) error {
	return h.startOCM(ctx, true, featureGates)
}

// StartManualRegistration starts OCM's own registration controller on a hub where people approve and accept clusters.
func (h *Hub) StartManualRegistration(ctx context.Context) error {
	return h.startOCM(ctx, false, nil)
}

func (h *Hub) startOCM(ctx context.Context, autoApprove bool, featureGates []string) error {
	_, err := h.startRegistration(ctx, ocmhub.ControllerOptions{
		BinDir: h.environment.agentBin, FeatureGates: featureGates, AutoApprove: autoApprove,
		Args: []string{"--import-renderers=render-auto"},
	})
	return err
}

// StartDropIn installs what the drop-in needs and starts it in the place of OCM's registration controller.
func (h *Hub) StartDropIn(ctx context.Context, featureGates ...string) (*ocmhub.Process, error) {
	for _, folder := range []string{"drop-in", "capi"} {
		if err := component.Install(ctx, h.ControlPlane, h.environment.controlPlaneBin, folder); err != nil {
			return nil, err
		}
	}
	policyFile := filepath.Join(h.environment.Dir, h.name+"-policy.yaml")
	if err := component.WritePolicy(policyFile, component.LoopbackPolicy); err != nil {
		return nil, err
	}
	return h.startRegistration(ctx, ocmhub.ControllerOptions{
		Env:          []string{"IMPORT_POLICY_FILE=" + policyFile},
		Command:      []string{filepath.Join(h.environment.componentBin, "registration"), "controller"},
		FeatureGates: featureGates,
		AutoApprove:  true,
	})
}

func (h *Hub) startRegistration(ctx context.Context, o ocmhub.ControllerOptions) (*ocmhub.Process, error) {
	o.Kubeconfig = filepath.Join(h.environment.Dir, h.name+"-registration.kubeconfig")
	if err := component.ServiceAccountKubeconfig(
		ctx, h.ControlPlane, o.Kubeconfig, ocmhub.HubNamespace, ocmhub.ControllerServiceAccount); err != nil {
		return nil, err
	}
	o.LogFile = h.environment.Log(h.name + "-registration")
	controller, err := ocmhub.StartController(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("starting the registration controller: %w", err)
	}
	h.environment.onStop(controller.Stop)
	return controller, nil
}

// StartImportController installs and starts the import controller beside OCM's registration controller.
func (h *Hub) StartImportController(ctx context.Context, args ...string) error {
	if err := component.Install(ctx, h.ControlPlane, h.environment.controlPlaneBin, "import-controller"); err != nil {
		return err
	}
	kubeconfig := filepath.Join(h.environment.Dir, h.name+"-import-controller.kubeconfig")
	if err := component.ServiceAccountKubeconfig(
		ctx, h.ControlPlane, kubeconfig, component.Namespace, component.ServiceAccount); err != nil {
		return err
	}
	controller, err := component.Start(ctx, component.Options{
		BinDir: h.environment.componentBin, Kubeconfig: kubeconfig, Args: args,
		LogFile: h.environment.Log(h.name + "-import-controller"),
	})
	if err != nil {
		return err
	}
	h.environment.onStop(func() error {
		if !controller.Stop() {
			return errors.New("the import controller did not end by itself")
		}
		return nil
	})
	return nil
}

// Cluster is a cluster that exists already: a control plane and a node, nothing of OCM.
type Cluster struct {
	*harness.ControlPlane
	environment *Environment
}

// StartCluster starts a control plane and a node.
func (e *Environment) StartCluster(ctx context.Context, name string) (*Cluster, error) {
	plane, err := e.startControlPlane(ctx, name)
	if err != nil {
		return nil, err
	}
	runner, err := podrunner.Start(ctx, podrunner.Options{
		Config: plane.Config(), CAData: plane.CAData(), BinDir: e.agentBin,
		Dir: filepath.Join(e.Dir, name+"-node"), Logger: logr.Discard(),
		UnpullableImages: func(image string) bool { return strings.HasPrefix(image, UnpullableRegistry+"/") },
	})
	if err != nil {
		return nil, fmt.Errorf("starting the node of %s: %w", name, err)
	}
	e.onStop(runner.Stop)
	return &Cluster{ControlPlane: plane, environment: e}, nil
}

// IssueToken is the step of the cluster's owner: an account that may do what an import does, and a token of it.
func (c *Cluster) IssueToken(ctx context.Context) (string, error) {
	if err := component.Install(ctx, c.ControlPlane, c.environment.controlPlaneBin, "managed-cluster"); err != nil {
		return "", err
	}
	return c.ServiceAccountToken(ctx, "kube-system", "import-provider", tokenLifetime)
}
