// Copyright Contributors to the Open Cluster Management project

//go:build unix && !linux

package process

import "syscall"

// sysProcAttr can't tie the child's life to ours here: only Linux offers it.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
