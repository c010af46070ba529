// Copyright Contributors to the Open Cluster Management project

package eks

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"open-cluster-management.io/import-provider/pkg/credential/cloud"
)

// TestIsAgent asks nobody: these are real addresses.
func TestIsAgent(t *testing.T) {
	for address, want := range map[string]bool{
		"http://169.254.170.23/v1/credentials": true, "http://[fd00:ec2::23]/v1/credentials": true, "http://127.0.0.1:8080/": true, "http://[::1]/": true,
		"http://169.254.169.254/v1/credentials": false, "http://[fd00:ec2::254]/v1/credentials": false, "http://169.254.170.2/v1/credentials": false,
		"http://10.0.0.1/v1/credentials": false, "http://example.com/v1/credentials": false, "http://localhost/v1/credentials": false,
		"https://169.254.170.23/v1/credentials": false, "http://user:password@169.254.170.23/": false, "/v1/credentials": false, "::": false, "": false,
	} {
		if isAgent(address) != want {
			t.Errorf("%s: got %t", address, !want)
		}
	}
}

// TestAgentClient: a proxy of the environment would get the token.
func TestAgentClient(t *testing.T) {
	bounded := newAgentClient()
	if bounded.Timeout == 0 || bounded.CheckRedirect == nil {
		t.Error("the client waits for ever, or follows redirects")
	}
	if agentTransport().Proxy != nil {
		t.Error("the client uses a proxy")
	}
}

// BenchmarkToken signs a token with credentials that are there.
func BenchmarkToken(b *testing.B) {
	o := cloud.Options{}
	o.Default()
	s := &session{resolver: &resolver{options: o}, credentials: aws.Credentials{
		AccessKeyID: "ASIAFAKE", SecretAccessKey: "secret", SessionToken: "token", CanExpire: true, Expires: time.Now().Add(time.Hour),
	}}
	for b.Loop() {
		if _, err := s.token(b.Context(), target{cluster: "prod-1", region: "eu-central-1"}); err != nil {
			b.Fatal(err)
		}
	}
}
