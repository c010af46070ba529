// Copyright Contributors to the Open Cluster Management project

// Package policy is what the administrator of a hub lets import Secrets ask for: one file, of kind ImportPolicy.
package policy
