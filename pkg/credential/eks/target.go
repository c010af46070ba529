// Copyright Contributors to the Open Cluster Management project

package eks

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/stanza"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	valueCluster = "cluster"
	valueRegion  = "region"
	valueRole    = "role"
)

// target is a cluster, and the role to be there; "" is that of the hub. The values have the forms of problem.
type target struct{ cluster, region, role string }

// Forms of values that become parts of hosts, paths and headers.
var (
	// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
	clusterForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
	regionForm  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]{2,16}){1,3}-[0-9]{1,2}$`)
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
	roleForm = regexp.MustCompile(`^arn:aws(-[a-z]{1,8}){0,2}:iam::[0-9]{12}:role/[0-9A-Za-z+=,.@_/-]{1,576}$`)
)

// problem returns the first value that does not have its form, and what to do about it.
func (t target) problem() (value, next string) {
	switch {
	case !clusterForm.MatchString(t.cluster):
		return valueCluster, "the name of the cluster must be letters, digits, - and _, at most 100"
	case !regionForm.MatchString(t.region):
		return valueRegion, "the region must be one of AWS, such as eu-central-1"
	case t.role != "" && !roleForm.MatchString(t.role):
		return "roleARN", "the role must be the ARN of a role of IAM, arn:aws:iam::ACCOUNT:role/NAME"
	}
	return "", ""
}

// fromParameters reads credential.yaml. The error is an InvalidError.
func fromParameters(p *credential.EKSParameters) (target, error) {
	for _, required := range []struct{ field, value string }{{valueCluster, p.Cluster}, {valueRegion, p.Region}} {
		if required.value == "" {
			return target{}, credential.Missing("eks." + required.field)
		}
	}
	t := target{cluster: p.Cluster, region: p.Region, role: p.RoleARN}
	if value, next := t.problem(); value != "" {
		return target{}, credential.Invalid(fmt.Errorf("data key %s: eks.%s is not valid: %s", credential.DocumentKey, value, next))
	}
	return t, nil
}

// grammar is what is known of a tool's stanza. What would read a file (--profile), go elsewhere (--endpoint-url), choose the external
// id (-e) or keep a credential (--cache) is not in it.
func grammar(tool string) (stanza.Grammar, bool) {
	cluster, region, role := stanza.Flag{Value: valueCluster}, stanza.Flag{Value: valueRegion}, stanza.Flag{Value: valueRole}
	known := map[string]stanza.Grammar{
		"aws": {
			Words: []string{"eks", "get-token"},
			Flags: map[string]stanza.Flag{
				"--cluster-name": cluster, "--region": region,
				// Older versions of "aws eks update-kubeconfig" write --role.
				"--role-arn": role, "--role": role,
				"--output": {Value: "output", OneOf: []string{"json"}},
			},
		},
		"aws-iam-authenticator": {
			Words: []string{"token"},
			Flags: map[string]stanza.Flag{
				"--cluster-id": cluster, "-i": cluster, "--role": role, "-r": role, "--region": region,
			},
		},
		"argocd-k8s-auth": {
			Words: []string{"aws"},
			Flags: map[string]stanza.Flag{"--cluster-name": cluster, "--role-arn": role},
		},
	}
	g, found := known[tool]
	g.Env = map[string][]string{
		"AWS_REGION": nil, "AWS_DEFAULT_REGION": nil,
		// It chooses the STS that the tool talks to. Here that is always a regional one.
		"AWS_STS_REGIONAL_ENDPOINTS": {"regional", "legacy"},
	}
	return g, found
}

// fromStanza reads the exec stanza of a kubeconfig. The error is an InvalidError.
func fromStanza(kubeconfig *restconfig.Kubeconfig) (target, error) {
	exec := kubeconfig.Exec
	g, found := grammar(credential.CommandName(exec))
	if !found {
		return target{}, stanza.Refuse(exec, "the command must be aws, aws-iam-authenticator or argocd-k8s-auth; "+
			"for another, set the annotation "+credential.AnnotationCredentialResolver+" to "+credential.ResolverExec)
	}
	values, err := stanza.Parse(exec, g)
	if err != nil {
		return target{}, err
	}
	t := target{cluster: values[valueCluster], region: values[valueRegion], role: values[valueRole]}
	// The order of the tools.
	for _, region := range []string{values["AWS_REGION"], values["AWS_DEFAULT_REGION"], regionOf(kubeconfig.Config.Host)} {
		if t.region == "" {
			t.region = region
		}
	}
	switch {
	case t.cluster == "":
		return target{}, stanza.Refuse(exec, "the name of the cluster is missing")
	case t.region == "":
		return target{}, stanza.Refuse(exec, "the region is not known; add the flag --region, or the variable AWS_REGION")
	}
	if value, next := t.problem(); value != "" {
		return target{}, stanza.Refuse(exec, next)
	}
	return t, nil
}

// regionOf returns the region in the address of a server of EKS, https://ID.SHARD.REGION.eks.amazonaws.com, or "". A wrong one
// does no harm: what EKS says of the cluster is compared with the server later.
func regionOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	labels := strings.Split(strings.ToLower(u.Hostname()), ".")
	for i, region := range labels {
		if !regionForm.MatchString(region) {
			continue
		}
		suffix := strings.Join(labels[i:], ".")
		for _, dualStack := range []bool{false, true} {
			// STS has the same suffix as the rest of AWS there.
			sts, err := stsHost(region, dualStack)
			domain, _ := strings.CutPrefix(sts, "sts."+region+".")
			if err == nil && (suffix == region+".eks."+domain || dualStack && suffix == region+"."+domain) {
				return region
			}
		}
	}
	return ""
}
