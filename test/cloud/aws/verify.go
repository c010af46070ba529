// Copyright Contributors to the Open Cluster Management project

package aws

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	tokenPrefix   = "k8s-aws-v1."
	clusterHeader = "x-k8s-aws-id"
	// maxToken is in bytes.
	maxToken = 4096
	// tokenAge is how old a token may be.
	tokenAge = 15 * time.Minute
	// maxExpires is what old authenticators accept, in seconds.
	maxExpires = 60
)

// Verify does what the API server of a cluster and STS do with a token: it returns whose it is.
func (c *Cloud) Verify(token string, cluster Cluster) (Identity, error) {
	encoded, found := strings.CutPrefix(token, tokenPrefix)
	if !found || len(token) > maxToken {
		return Identity{}, errors.New("the token has not the form of one")
	}
	address, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return Identity{}, fmt.Errorf("decoding the token: %w", err)
	}
	u, err := url.Parse(string(address))
	if err != nil {
		return Identity{}, fmt.Errorf("reading the token: %w", err)
	}
	if host := HostOfSTS(cluster.Region); u.Scheme != "https" || u.Host != host || u.Path != "/" || u.User != nil || u.Fragment != "" {
		return Identity{}, fmt.Errorf("the token is not for https://%s/", host)
	}
	query := u.Query()
	known := []string{
		"Action", "Version", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Signature",
		"X-Amz-SignedHeaders",
	}
	for name, values := range query {
		if !slices.Contains(known, name) || len(values) != 1 {
			return Identity{}, fmt.Errorf("the parameter %s of the token is not known, or stands twice", name)
		}
	}
	var expires int
	if _, err := fmt.Sscanf(query.Get("X-Amz-Expires"), "%d", &expires); err != nil || expires < 0 || expires > maxExpires {
		return Identity{}, errors.New("the X-Amz-Expires of the token is not valid")
	}
	if query.Get("Action") != "GetCallerIdentity" || query.Get("Version") != "2011-06-15" {
		return Identity{}, errors.New("the token is for another action")
	}
	signed, err := readQuery(query)
	if err != nil {
		return Identity{}, err
	}
	if !slices.Contains(signed.signedHeaders, clusterHeader) || signed.region != cluster.Region || signed.service != "sts" {
		return Identity{}, errors.New("the signature of the token leaves out the cluster, or is for another service")
	}
	at, err := signed.at()
	if err != nil {
		return Identity{}, err
	}
	if age := c.options.Clock.Now().Sub(at); age > tokenAge || age < -requestAge {
		return Identity{}, errors.New("the token is expired, or not valid yet")
	}
	s, err := c.session(signed)
	if err != nil {
		return Identity{}, err
	}
	// The API server sets the header to the name of its own cluster.
	if err := signed.verify(s.secret, "GET", "/", map[string]string{"host": u.Host, clusterHeader: cluster.Name}); err != nil {
		return Identity{}, err
	}
	return s.identity, nil
}

// HostOfSTS is the host of STS in a region, as https://docs.aws.amazon.com/general/latest/gr/sts.html has it.
func HostOfSTS(region string) string {
	domain := "amazonaws.com"
	for prefix, other := range map[string]string{
		"cn-": "amazonaws.com.cn", "us-iso-": "c2s.ic.gov", "us-isob-": "sc2s.sgov.gov", "eusc-": "amazonaws.eu",
	} {
		if strings.HasPrefix(region, prefix) {
			domain = other
		}
	}
	return "sts." + region + "." + domain
}
