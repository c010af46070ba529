// Copyright Contributors to the Open Cluster Management project

package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	// requestAge is how old a signed request may be, or how far in the future:
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html
	requestAge = 5 * time.Minute
)

// signature is what a request says of its signature.
type signature struct {
	keyID, date, region, service string
	signedHeaders                []string
	sessionToken, value          string
	// query is the canonical query, without the signature.
	query string
	// payload is the SHA-256 of the body in hexadecimal.
	payload string
}

// readHeader reads the signature in the Authorization header of a request.
func readHeader(r *http.Request, body []byte) (signature, error) {
	rest, found := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !found {
		return signature{}, errors.New("the request is not signed")
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[key] = value
	}
	s := signature{
		date: r.Header.Get("X-Amz-Date"), sessionToken: r.Header.Get("X-Amz-Security-Token"), value: parts["Signature"],
		signedHeaders: strings.Split(parts["SignedHeaders"], ";"), query: canonicalQuery(r.URL.Query()), payload: digest(body),
	}
	return s, s.readScope(parts["Credential"])
}

// readQuery reads the signature in a query, of a request that is presigned.
func readQuery(query url.Values) (signature, error) {
	if query.Get("X-Amz-Algorithm") != algorithm {
		return signature{}, errors.New("the request is not presigned")
	}
	s := signature{
		date: query.Get("X-Amz-Date"), sessionToken: query.Get("X-Amz-Security-Token"), value: query.Get("X-Amz-Signature"),
		signedHeaders: strings.Split(query.Get("X-Amz-SignedHeaders"), ";"), payload: digest(nil),
	}
	unsigned := url.Values{}
	for key, values := range query {
		if key != "X-Amz-Signature" {
			unsigned[key] = values
		}
	}
	s.query = canonicalQuery(unsigned)
	return s, s.readScope(query.Get("X-Amz-Credential"))
}

// readScope reads KEY/DATE/REGION/SERVICE/aws4_request.
func (s *signature) readScope(credential string) error {
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || parts[4] != "aws4_request" || !strings.HasPrefix(s.date, parts[1]) || !slices.Contains(s.signedHeaders, "host") {
		return errors.New("the scope of the signature is not valid")
	}
	s.keyID, s.region, s.service = parts[0], parts[2], parts[3]
	return nil
}

// at is when the request was signed.
func (s *signature) at() (time.Time, error) {
	t, err := time.Parse(timeFormat, s.date)
	if err != nil {
		return time.Time{}, fmt.Errorf("the date of the signature is not valid: %w", err)
	}
	return t, nil
}

// verify computes the signature once more. headers has the names in lower case.
func (s *signature) verify(secret, method, path string, headers map[string]string) error {
	if got, err := hex.DecodeString(s.value); err != nil || !hmac.Equal(got, s.compute(secret, method, path, headers)) {
		return errors.New("the signature does not match")
	}
	return nil
}

func (s *signature) compute(secret, method, path string, headers map[string]string) []byte {
	var lines strings.Builder
	for _, name := range s.signedHeaders {
		fmt.Fprintf(&lines, "%s:%s\n", name, strings.Join(strings.Fields(headers[name]), " "))
	}
	request := strings.Join([]string{method, path, s.query, lines.String(), strings.Join(s.signedHeaders, ";"), s.payload}, "\n")
	scope := []string{s.date[:len("20060102")], s.region, s.service, "aws4_request"}
	key := []byte("AWS4" + secret)
	for _, step := range scope {
		key = mac(key, step)
	}
	return mac(key, strings.Join([]string{algorithm, s.date, strings.Join(scope, "/"), digest([]byte(request))}, "\n"))
}

func mac(key []byte, data string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(data))
	return h.Sum(nil)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func canonicalQuery(query url.Values) string {
	// Values.Encode sorts; a blank is %20 in a signature.
	return strings.ReplaceAll(query.Encode(), "+", "%20")
}

// headersOf returns the headers of a request with names in lower case, among them host and content-length.
func headersOf(r *http.Request) map[string]string {
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	if r.ContentLength > 0 {
		headers["content-length"] = fmt.Sprint(r.ContentLength)
	}
	return headers
}
