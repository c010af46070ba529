// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/benchmark/figures"
	proc "open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/binaries"
)

const (
	goalCloudBytes = 5 << 20
	goalMintCPU    = 0.01
	goalMints      = 2
	// goalChurn leaves room for what a garbage collector and a runtime hold by chance.
	goalChurn = 1.2

	pluginStarts  = 20
	stormRequests = 50
	// churnWarm Secrets fill all caches and pools; what comes after must not take more.
	churnWarm, churnSecrets = 1000, 10000
)

// credentials measures what it costs to make tokens. It needs no hub.
func (b *bench) credentials(ctx context.Context) error {
	for _, measure := range []func(context.Context) error{b.cloudBytes, b.mintCPU, b.storm, b.churn} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cloudBytes compares a client for Kubernetes with one that serves the three clouds too.
func (b *bench) cloudBytes(ctx context.Context) error {
	figures.Progress("building a client for Kubernetes without and with clouds")
	base, err := b.size(ctx, "base")
	if err != nil {
		return err
	}
	with, err := b.size(ctx, "clouds")
	if err != nil {
		return err
	}
	b.report.add(figure{name: "cloud-bytes", unit: "B", value: with - base, peer: base})
	b.report.goal("bytes that the three clouds add", "cloud-bytes", with-base, goalCloudBytes)
	return nil
}

// size is that of a program below size/, in bytes, built as a release is.
func (b *bench) size(ctx context.Context, name string) (float64, error) {
	path := filepath.Join(b.dir, "size-"+name)
	if err := proc.BuildProgram(ctx, path, "./test/benchmark/size/"+name, "-ldflags=-s -w"); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("measuring size/%s: %w", name, err)
	}
	return float64(info.Size()), nil
}

// mintCPU compares the CPU of a token that is signed in this process with that of starting a plugin that has the same libraries.
func (b *bench) mintCPU(ctx context.Context) error {
	figures.Progress("signing tokens of EKS, and starting a plugin")
	root, err := binaries.ModuleRoot()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	// The benchmark beside the code: what it signs is not exported.
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^BenchmarkToken$", "-benchtime=2s", "./pkg/credential/eks")
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the benchmark of eks: %w\n%s", err, output)
	}
	found := nanoseconds.FindSubmatch(output)
	if found == nil {
		return fmt.Errorf("the benchmark of eks printed no time:\n%s", output)
	}
	sign, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return fmt.Errorf("reading the benchmark of eks: %w", err)
	}
	var plugin time.Duration
	for range pluginStarts {
		cmd := exec.CommandContext(ctx, filepath.Join(b.dir, "size-clouds"))
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("starting a plugin: %w", err)
		}
		plugin += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	ratio := b.report.add(figure{name: "mint-cpu", unit: "ms", value: sign / 1e6, peer: plugin.Seconds() * 1e3 / pluginStarts})
	b.report.goal("CPU of a minted token to that of starting a plugin", "mint-cpu", ratio, goalMintCPU)
	return nil
}

var nanoseconds = regexp.MustCompile(`BenchmarkToken\S*\s+\d+\s+([0-9.]+) ns/op`)

// storm has a server that accepts no token asked again and again, with a token source of ours and with client-go's plugin.
func (b *bench) storm(ctx context.Context) error {
	figures.Progress("asking a server that accepts no token")
	server := newTLSServer(http.StatusUnauthorized)
	defer server.Close()
	var mints atomic.Int64
	tokens := tokensource.NewCache(tokensource.Options{})
	ours, err := tokenConfig(ctx, tokens, server, "storm", "1", &mints)
	if err != nil {
		return err
	}
	if err := ask(ctx, ours, stormRequests); err != nil {
		return err
	}
	runs := filepath.Join(b.dir, "plugin-runs")
	theirs := serverConfig(server)
	theirs.ExecProvider = &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode, Command: "/bin/sh",
		Args: []string{"-c", "echo >> " + runs + `; echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'`},
	}
	if err := ask(ctx, theirs, stormRequests); err != nil {
		return err
	}
	counted, err := os.ReadFile(runs)
	if err != nil {
		return fmt.Errorf("counting runs of the plugin: %w", err)
	}
	b.report.add(figure{name: "401-storm-mints", unit: "mints", value: float64(mints.Load()), peer: float64(strings.Count(string(counted), "\n"))})
	b.report.goal(fmt.Sprintf("mints in %d requests that are answered with 401", stormRequests), "401-storm-mints", float64(mints.Load()), goalMints)
	return nil
}

// churn creates, rotates and deletes Secrets, with a request to a cluster for each version of them, and compares what is held
// after all of them with what was after the first of them.
func (b *bench) churn(ctx context.Context) error {
	figures.Progress("creating, rotating and deleting %d Secrets", churnSecrets)
	server := newTLSServer(http.StatusOK)
	defer server.Close()
	tokens := tokensource.NewCache(tokensource.Options{})
	current, err := policy.Parse([]byte("apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\nendpoints: {allowCIDRs: [127.0.0.0/8]}\n"))
	if err != nil {
		return fmt.Errorf("making a policy: %w", err)
	}
	var warm, after held
	var mints atomic.Int64
	for i := range churnSecrets {
		uid := "secret-" + strconv.Itoa(i)
		for _, version := range []string{"1", "2"} {
			config, err := tokenConfig(ctx, tokens, server, uid, version, &mints)
			if err != nil {
				return err
			}
			client, err := kubeconfig.NewHTTPClient(config, kubeconfig.ConnectionOptions{}, current)
			if err != nil {
				return fmt.Errorf("building a client: %w", err)
			}
			if err := get(ctx, client, config.Host); err != nil {
				return err
			}
			client.CloseIdleConnections()
		}
		tokens.Forget(types.UID(uid))
		if i == churnWarm-1 {
			if warm, err = holding(ctx); err != nil {
				return err
			}
		}
	}
	if mints.Load() != 2*churnSecrets {
		return fmt.Errorf("%d tokens were minted, want %d", mints.Load(), 2*churnSecrets)
	}
	if after, err = holding(ctx); err != nil {
		return err
	}
	heap := b.report.add(figure{name: "churn-heap", unit: "KiB", value: after.heap / 1024, peer: warm.heap / 1024})
	descriptors := b.report.add(figure{name: "churn-descriptors", unit: "descriptors", value: after.descriptors, peer: warm.descriptors})
	b.report.goal(fmt.Sprintf("heap after %d Secrets to that after %d", churnSecrets, churnWarm), "churn-heap", heap, goalChurn)
	b.report.goal(fmt.Sprintf("descriptors after %d Secrets to those after %d", churnSecrets, churnWarm), "churn-descriptors", descriptors, goalChurn)
	return nil
}

// held is what this process holds when it is at rest.
type held struct{ heap, descriptors float64 }

func holding(ctx context.Context) (held, error) {
	// Connections that were closed end in goroutines of their own.
	time.Sleep(time.Second)
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	level, err := proc.Read(ctx, os.Getpid(), "", false)
	return held{heap: float64(memory.HeapAlloc), descriptors: level.Descriptors}, err
}

// tokenConfig is a config for a server with tokens of a source, as resolvers make it.
func tokenConfig(ctx context.Context, tokens *tokensource.Cache, server *httptest.Server, uid, version string, mints *atomic.Int64) (*rest.Config, error) {
	config := serverConfig(server)
	req := credential.Request{Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}}
	source := tokens.Source(cloud.Key("benchmark", req, config, ""), func(context.Context) (tokensource.Token, error) {
		// As long as one of a cloud.
		token := strings.Repeat("t", 1500) + strconv.FormatInt(mints.Add(1), 10)
		return tokensource.Token{Value: token, Expiry: time.Now().Add(time.Hour)}, nil
	})
	return cloud.WithTokens(ctx, config, source) //nolint:wrapcheck // it can't fail.
}

func newTLSServer(code int) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		// What is no object of Kubernetes is no answer of an API server.
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	}))
	server.StartTLS()
	return server
}

func serverConfig(server *httptest.Server) *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// ask sends so many requests, one after the other, to a server that answers 401.
func ask(ctx context.Context, config *rest.Config, requests int) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	defer client.CloseIdleConnections()
	for range requests {
		if err := get(ctx, client, config.Host); !errors.Is(err, errUnauthorized) {
			return fmt.Errorf("the server should refuse the token: %w", err)
		}
	}
	return nil
}

var errUnauthorized = errors.New("401")

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/version", http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking a server: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return errUnauthorized
	}
	return nil
}
