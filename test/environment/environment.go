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
	"open-cluster-management.io/import-provider/test/importhub"
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

func (e *Environment) controlPlane(name string) harness.Options {
	return harness.Options{Name: name, ControllerManager: true, BinDir: e.controlPlaneBin, LogDir: e.Dir}
}

// Hub is a hub whose registration controller and importer the caller starts, by one of two ways.
type Hub struct {
	*importhub.Hub
	environment *Environment
	name        string
}

// StartHub starts a control plane and installs OCM on it, without any controller.
func (e *Environment) StartHub(ctx context.Context, name string) (*Hub, error) {
	hub, err := importhub.Start(ctx, importhub.Options{ControlPlane: e.controlPlane(name), Dir: e.Dir})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	e.onStop(hub.Stop)
	return &Hub{Hub: hub, environment: e, name: name}, nil
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
	_, err := h.Hub.StartRegistration(ctx, ocmhub.ControllerOptions{
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
	return h.Hub.StartRegistration(ctx, ocmhub.ControllerOptions{
		Env:          []string{"IMPORT_POLICY_FILE=" + policyFile},
		Command:      []string{filepath.Join(h.environment.componentBin, "registration"), "controller"},
		FeatureGates: featureGates,
		AutoApprove:  true,
	})
}

// StartImportController installs and starts the import controller beside OCM's registration controller.
func (h *Hub) StartImportController(ctx context.Context, args ...string) error {
	if err := h.InstallImportController(ctx); err != nil {
		return err
	}
	_, err := h.Hub.StartImportController(ctx, component.Options{BinDir: h.environment.componentBin, Args: args})
	return err
}

// Cluster is a cluster that exists already: a control plane and a node, nothing of OCM.
type Cluster struct {
	*harness.ControlPlane
	environment *Environment
}

// StartCluster starts a control plane and a node.
func (e *Environment) StartCluster(ctx context.Context, name string) (*Cluster, error) {
	plane, err := harness.Start(ctx, e.controlPlane(name))
	if err != nil {
		return nil, fmt.Errorf("starting the control plane of %s: %w", name, err)
	}
	e.onStop(plane.Stop)
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
