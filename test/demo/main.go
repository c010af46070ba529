// Copyright Contributors to the Open Cluster Management project

// Command demo tells the story of an import: a hub, clusters that exist already, an annotated Secret and a ManagedCluster
// for each. It needs Go and nothing else. Control planes, controllers and agents are the real ones; what a kubelet would
// run in containers runs as processes.
//
// With KEEP=1 in the environment everything stays up until Ctrl-C.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// stageTimeout is many times what a stage takes on two quiet cores.
const stageTimeout = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1) //nolint:gocritic // stop only gives signals back.
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "import-demo-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	env, err := environment.New(ctx, dir, os.Stderr)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	kubectl, err := env.Kubectl()
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	d := &demo{env: env, out: out, kubectl: kubectl, start: time.Now()}
	defer func() {
		err = errors.Join(err, env.Stop())
		if err != nil {
			err = fmt.Errorf("%w\nlogs are in %s", err, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	if err := d.tell(ctx); err != nil {
		return err
	}
	if os.Getenv("KEEP") == "" {
		return nil
	}
	d.keep()
	<-ctx.Done()
	return nil
}

type demo struct {
	env     *environment.Environment
	out     io.Writer
	kubectl string
	start   time.Time

	hub      *environment.Hub
	clusters [2]*environment.Cluster
}

// say prints a line of the story with the time since its start.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "[%5.1f s] %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) tell(ctx context.Context) error {
	d.say("Starting a hub and two clusters, each with an etcd and an API server of its own.")
	d.say("Controllers and agents are OCM's real ones. There is no container runtime: pods run as processes.")
	if err := d.startAll(ctx); err != nil {
		return err
	}
	d.say("The hub runs OCM's registration controller and, beside it, the import controller. The clusters know nothing of it.")

	d.say("Step 1: the feature gate ClusterImporter is enabled on the hub's ClusterManager.")
	if err := ocmhub.SetClusterImporterGate(ctx, d.hub.Config(), true); err != nil {
		return fmt.Errorf("enabling the feature gate: %w", err)
	}

	d.say("Step 2: an annotated Secret for each cluster. cluster1 has a token, cluster2 a client certificate, cluster3 a wrong CA.")
	kubeconfigs, err := d.kubeconfigs(ctx)
	if err != nil {
		return err
	}
	for i, kubeconfig := range kubeconfigs {
		if err := d.apply(ctx, secretTemplate, i+1, kubeconfig); err != nil {
			return err
		}
	}

	d.say("Step 3: a ManagedCluster for each.")
	created := time.Now()
	for i := range kubeconfigs {
		if err := d.apply(ctx, managedClusterTemplate, i+1, nil); err != nil {
			return err
		}
	}
	for _, stage := range []struct{ condition, meaning string }{
		{kubeconfig.ConditionPreflightPassed, "the cluster can be imported"},
		{"ManagedClusterImportSucceeded", "the klusterlet is deployed"},
		{clusterv1.ManagedClusterConditionJoined, "the agent has joined"},
		{kubeconfig.ConditionCompleted, "the import is complete"},
	} {
		for _, name := range []string{"cluster1", "cluster2"} {
			if err := d.wait(ctx, name, stage.condition); err != nil {
				return err
			}
			d.say("  %s: %s (%s, %.1f s after step 3)", name, stage.meaning, stage.condition, time.Since(created).Seconds())
		}
	}

	d.say("On cluster1, what the import left:")
	if err := d.show(ctx, d.clusters[0].KubeconfigPath(), "get", "klusterlets,deployments,pods", "--all-namespaces"); err != nil {
		return err
	}
	d.say("cluster1 says how its import went:")
	if err := d.showConditions(ctx, "cluster1"); err != nil {
		return err
	}
	d.say("cluster3 says what is wrong and what to do:")
	if err := d.wait(ctx, "cluster3", kubeconfig.ConditionPreflightPassed+"=false"); err != nil {
		return err
	}
	if err := d.showConditions(ctx, "cluster3"); err != nil {
		return err
	}
	d.say("On the hub:")
	return d.show(ctx, d.hub.KubeconfigPath(), "get", "managedclusters")
}

func (d *demo) startAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		hub, err := d.env.StartHub(ctx, "hub")
		if err != nil {
			return err
		}
		d.hub = hub
		if err := hub.StartRegistration(ctx, "ClusterImporter=true"); err != nil {
			return err
		}
		return hub.StartImportController(ctx)
	})
	for i := range d.clusters {
		group.Go(func() (err error) {
			d.clusters[i], err = d.env.StartCluster(ctx, fmt.Sprintf("cluster%d", i+1))
			return err
		})
	}
	return group.Wait()
}

func (d *demo) kubeconfigs(ctx context.Context) ([][]byte, error) {
	token, err := d.clusters[0].IssueToken(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cert, key, err := d.clusters[1].IssueClientCert("owner", []string{"system:masters"}, now.Add(-time.Minute), now.Add(time.Hour))
	if err != nil {
		return nil, fmt.Errorf("issuing a client certificate: %w", err)
	}
	return [][]byte{
		harness.TokenKubeconfig(d.clusters[0].URL(), d.clusters[0].CAData(), token),
		harness.CertKubeconfig(d.clusters[1].URL(), d.clusters[1].CAData(), cert, key),
		harness.TokenKubeconfig(d.clusters[0].URL(), d.hub.CAData(), token),
	}, nil
}

var (
	secretTemplate = template.Must(template.New("secret").Parse(`apiVersion: v1
kind: Secret
metadata:
  name: cluster{{.Number}}
  namespace: open-cluster-management-import
  annotations:
    import.open-cluster-management.io/managed-cluster: cluster{{.Number}}
stringData:
  kubeconfig: {{.Kubeconfig}}
`))
	managedClusterTemplate = template.Must(template.New("managedcluster").Parse(`apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata:
  name: cluster{{.Number}}
spec:
  hubAcceptsClient: true
`))
)

// apply applies a manifest to the hub and shows it, without the kubeconfig.
func (d *demo) apply(ctx context.Context, manifest *template.Template, number int, kubeconfig []byte) error {
	values := struct {
		Number     int
		Kubeconfig string
	}{number, fmt.Sprintf("%q", kubeconfig)}
	var applied, shown bytes.Buffer
	if err := manifest.Execute(&applied, values); err != nil {
		return fmt.Errorf("filling in a manifest: %w", err)
	}
	values.Kubeconfig = "…"
	if err := manifest.Execute(&shown, values); err != nil {
		return fmt.Errorf("filling in a manifest: %w", err)
	}
	if number == 1 {
		fmt.Fprint(d.out, indent(shown.String()))
	}
	cmd := d.command(ctx, d.hub.KubeconfigPath(), "apply", "--server-side", "-f", "-")
	cmd.Stdin = &applied
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, output)
	}
	return nil
}

// wait waits for a condition of a ManagedCluster, such as Joined or Joined=false.
func (d *demo) wait(ctx context.Context, cluster, condition string) error {
	_, err := d.run(ctx, d.hub.KubeconfigPath(), "wait", "managedcluster/"+cluster, "--for=condition="+condition,
		"--timeout="+stageTimeout.String())
	return err
}

// showConditions shows what the import says of a cluster.
func (d *demo) showConditions(ctx context.Context, cluster string) error {
	const text = `{{range .status.conditions}}{{if eq .type %q %q}}{{.type}} is {{.status}}
  {{.reason}}: {{.message}}
{{end}}{{end}}`
	output, err := d.run(ctx, d.hub.KubeconfigPath(), "get", "managedcluster", cluster,
		"-o", "go-template="+fmt.Sprintf(text, kubeconfig.ConditionPreflightPassed, kubeconfig.ConditionCompleted))
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, indent(output))
	return nil
}

func (d *demo) show(ctx context.Context, kubeconfig string, args ...string) error {
	output, err := d.run(ctx, kubeconfig, args...)
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, indent("$ kubectl "+strings.Join(args, " ")+"\n"+output))
	return nil
}

func (d *demo) run(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	output, err := d.command(ctx, kubeconfig, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", args[0], err, output)
	}
	return string(output), nil
}

func (d *demo) command(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, d.kubectl, append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
}

func (d *demo) keep() {
	d.say("Everything stays up until Ctrl-C. To look around:")
	fmt.Fprintf(d.out, "  %-9s export KUBECONFIG=%s\n", "hub", d.hub.KubeconfigPath())
	for i, cluster := range d.clusters {
		fmt.Fprintf(d.out, "  cluster%d  export KUBECONFIG=%s\n", i+1, cluster.KubeconfigPath())
	}
	fmt.Fprintf(d.out, "  %-9s %s\n  %-9s %s\n", "kubectl", d.kubectl, "logs", filepath.Join(d.env.Dir, "*.log"))
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}
