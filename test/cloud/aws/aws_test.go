// Copyright Contributors to the Open Cluster Management project

package aws

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestSignature is the example of https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, which
// is older than this code and the SDK.
func TestSignature(t *testing.T) {
	const secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	newRequest := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		r.Header.Set("X-Amz-Date", "20150830T123600Z")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "+
			"SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")
		return r
	}
	verify := func(r *http.Request, body []byte, secret string) error {
		s, err := readHeader(r, body)
		if err != nil {
			t.Fatal(err)
		}
		return s.verify(secret, r.Method, "/", headersOf(r))
	}
	if err := verify(newRequest(), nil, secret); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(r *http.Request){
		"query":  func(r *http.Request) { r.URL.RawQuery += "&X=y" },
		"method": func(r *http.Request) { r.Method = http.MethodPost },
		"host":   func(r *http.Request) { r.Host = "other" },
		"header": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"date":   func(r *http.Request) { r.Header.Set("X-Amz-Date", "20150830T123601Z") },
		"region": func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "us-east-1", "us-east-2", 1))
		},
	} {
		r := newRequest()
		edit(r)
		if verify(r, nil, secret) == nil {
			t.Errorf("another %s is accepted", name)
		}
	}
	if verify(newRequest(), []byte("x"), secret) == nil {
		t.Error("another body is accepted")
	}
	if verify(newRequest(), nil, secret+"x") == nil {
		t.Error("another key is accepted")
	}
}

// TestVerify: a token of which one thing is changed is nobody's.
func TestVerify(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	fake := New(Options{Clock: now})
	defer fake.Close()
	s := fake.begin(Identity{"arn:aws:iam::1:role/r", "name"}, time.Hour)
	cluster := Cluster{Name: "c", Region: "eu-central-1"}
	token := func(edit func(address string) string) string {
		signed := signature{
			keyID: s.keyID, date: "20260102T030405Z", region: cluster.Region, service: "sts", signedHeaders: []string{"host", clusterHeader}, payload: digest(nil),
		}
		signed.query = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + s.keyID +
			"%2F20260102%2Feu-central-1%2Fsts%2Faws4_request&X-Amz-Date=20260102T030405Z&X-Amz-Expires=60&X-Amz-Security-Token=" +
			strings.NewReplacer("/", "%2F", "+", "%2B", "=", "%3D").Replace(s.token) + "&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"
		headers := map[string]string{"host": "sts.eu-central-1.amazonaws.com", clusterHeader: "c"}
		address := "https://sts.eu-central-1.amazonaws.com/?" + signed.query + "&X-Amz-Signature=" + hex.EncodeToString(signed.compute(s.secret, "GET", "/", headers))
		return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(edit(address)))
	}
	same := func(address string) string { return address }
	identity, err := fake.Verify(token(same), cluster)
	if err != nil || identity != s.identity {
		t.Fatalf("got %v, %v", identity, err)
	}
	replace := func(old, replacement string) func(string) string {
		return func(address string) string { return strings.Replace(address, old, replacement, 1) }
	}
	for name, edit := range map[string]func(string) string{
		"scheme": replace("https", "http"), "host": replace("sts.eu", "evil.eu"), "global host": replace("sts.eu-central-1.", "sts."), "path": replace("/?", "/x?"),
		"action": replace("GetCallerIdentity", "AssumeRole"), "parameter": replace("?", "?X=y&"), "twice": replace("?", "?Version=2011-06-15&"),
		"expires": replace("Expires=60", "Expires=61"), "headers": replace("%3Bx-k8s-aws-id", ""), "date": replace("T030405Z&X-Amz-E", "T030406Z&X-Amz-E"),
		"session": replace("Token=s", "Token=t"), "key": replace("ASIA", "AKIA"), "signature": replace("Signature=", "Signature=0"),
	} {
		if _, err := fake.Verify(token(edit), cluster); err == nil {
			t.Errorf("another %s is accepted", name)
		}
	}
	for name, other := range map[string]Cluster{"name": {Name: "d", Region: cluster.Region}, "region": {Name: "c", Region: "eu-central-2"}} {
		if _, err := fake.Verify(token(same), other); err == nil {
			t.Errorf("a cluster of another %s accepts it", name)
		}
	}
	now.SetTime(now.Now().Add(15*time.Minute + time.Second))
	if _, err := fake.Verify(token(same), cluster); err == nil {
		t.Error("it is accepted when it is expired")
	}
}
