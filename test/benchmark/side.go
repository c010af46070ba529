// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"

	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/importhub"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// side is a hub and the programs that import its clusters.
type side struct {
	// Hub is nil until it is started.
	*importhub.Hub
	name string
	// registration is OCM's controller, which has upstream's importer or not.
	registration *ocmhub.Process
	// importer is the import-controller; nil on upstream's side.
	importer *component.Process
}

func (s *side) startHub(ctx context.Context, b *bench) (err error) {
	s.Hub, err = importhub.Start(ctx, importhub.Options{
		ControlPlane: harness.Options{Name: s.name, ControllerManager: true, BinDir: b.controlPlaneBin}, Dir: b.dir,
	})
	return err
}

// startOurs starts a hub as our users have it: OCM's registration controller with its importer off, and the
// import-controller with its default flags beside it.
func (b *bench) startOurs(ctx context.Context, agentBin string) (err error) {
	s := &b.ours
	if err := s.startHub(ctx, b); err != nil {
		return err
	}
	if s.registration, err = s.StartRegistration(ctx, ocmhub.ControllerOptions{BinDir: agentBin}); err != nil {
		return err
	}
	if err := ocmhub.SetClusterImporterGate(ctx, s.Config(), true); err != nil {
		return err
	}
	if err := s.InstallImportController(ctx); err != nil {
		return err
	}
	if s.importer, err = s.StartImportController(ctx, component.Options{BinDir: b.binDir}); err != nil {
		return err
	}
	return s.WarmUp(ctx)
}

// startUpstream starts a hub with upstream's importer.
func (b *bench) startUpstream(ctx context.Context, agentBin string) (err error) {
	s := &b.upstream
	if err := s.startHub(ctx, b); err != nil {
		return err
	}
	if s.registration, err = s.StartUpstream(ctx, agentBin); err != nil {
		return err
	}
	return s.WarmUp(ctx)
}
