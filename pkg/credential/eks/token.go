// Copyright Contributors to the Open Cluster Management project

package eks

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
)

// The form of a token: https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster.
const (
	tokenPrefix   = "k8s-aws-v1."
	clusterHeader = "x-k8s-aws-id"
	// lifetime is how long a token is used. STS accepts a signed request for 15 minutes, whatever its X-Amz-Expires; one of them
	// is left for the way, as the AWS CLI does.
	lifetime = 14 * time.Minute
	// tokenQuery is the request that is signed. Old authenticators want an X-Amz-Expires of at most 60.
	tokenQuery = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"
	// emptyHash is the SHA-256 of the body, which is empty.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// token signs a token for the cluster of a target. Nothing is sent.
func (s *session) token(ctx context.Context, t target) (tokensource.Token, error) {
	host, err := stsHost(t.region, false)
	if err != nil {
		return tokensource.Token{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/?"+tokenQuery, http.NoBody)
	if err != nil {
		return tokensource.Token{}, fmt.Errorf("building the request of a token: %w", err)
	}
	req.Header.Set(clusterHeader, t.cluster)
	signed := s.now()
	address, _, err := v4.NewSigner().PresignHTTP(ctx, s.credentials, req, emptyHash, "sts", t.region, signed)
	if err != nil {
		return tokensource.Token{}, fmt.Errorf("signing a token: %w", err)
	}
	expiry := signed.Add(lifetime)
	if s.credentials.CanExpire && s.credentials.Expires.Before(expiry) {
		expiry = s.credentials.Expires
	}
	return tokensource.Token{
		Value: tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(address)),
		// By our clock, since that is what the token's age is measured by.
		Expiry: expiry.Add(-s.skew),
	}, nil
}

// stsHost is the public host of STS in a region. The partition of the region, such as China, has its own domain.
func stsHost(region string, dualStack bool) (string, error) {
	endpoint, err := sts.NewDefaultEndpointResolverV2().ResolveEndpoint(context.Background(), sts.EndpointParameters{
		Region: aws.String(region), UseDualStack: aws.Bool(dualStack),
	})
	if err != nil {
		return "", fmt.Errorf("looking up the host of STS: %w", err)
	}
	return endpoint.URI.Host, nil
}
