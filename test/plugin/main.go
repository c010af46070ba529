// Copyright Contributors to the Open Cluster Management project

// Command plugin is a credential plugin that does what tests of plugins need. Its first argument says what.
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"open-cluster-management.io/import-provider/pkg/plugininstall"
)

const version = "client.authentication.k8s.io/v1"

func main() {
	plugininstall.Main()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: plugin MODE [ARGUMENT]")
	}
	// A file that gets a line for each run.
	if path := os.Getenv("PLUGIN_RUNS"); path != "" {
		if err := appendLine(path); err != nil {
			return err
		}
	}
	switch mode := args[0]; mode {
	case "file": // the token that is in a file
		token, err := os.ReadFile(os.Getenv("PLUGIN_TOKEN_FILE"))
		if err != nil {
			return err
		}
		return printToken(strings.TrimSpace(string(token)))
	case "report": // all that the process was started with, as the token
		return report()
	case "print": // the argument
		_, err := os.Stdout.WriteString(args[1])
		return err
	case "noise": // the argument, a Go string, on standard error with a lot behind it; then a failure in spite of a token
		text, err := strconv.Unquote(args[1])
		if err != nil {
			return err
		}
		fmt.Fprint(os.Stderr, text, strings.Repeat("x", 1<<20))
		if err := printToken("failed"); err != nil {
			return err
		}
		os.Exit(3)
	case "flood": // output without end
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return err
			}
		}
	case "hang", "leave", "escape": // a child that holds the pipes open and never ends; its PID goes to a file
		if err := startChild(mode == "escape"); err != nil {
			return err
		}
		if mode == "hang" {
			sleep()
		}
		return printToken("left-a-child")
	case "sleep":
		sleep()
	}
	return errors.New("unknown mode")
}

func printToken(token string) error {
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"apiVersion": version, "kind": "ExecCredential", "status": map[string]any{"token": token},
	})
}

// Report is what the mode report tells.
type Report struct {
	Args, Env []string
	Dir       string
	Stdin     string
	PID, PGID int
}

func report() error {
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	data, err := json.Marshal(Report{Args: os.Args, Env: os.Environ(), Dir: dir, Stdin: string(stdin), PID: os.Getpid(), PGID: syscall.Getpgrp()})
	if err != nil {
		return err
	}
	return printToken(base64.RawURLEncoding.EncodeToString(data))
}

func startChild(escape bool) error {
	child := exec.Command("/proc/self/exe", "sleep") //nolint:noctx // it is to outlive everything.
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.Env = []string{}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: escape}
	if err := child.Start(); err != nil {
		return err
	}
	return os.WriteFile(os.Getenv("PLUGIN_PID_FILE"), []byte(strconv.Itoa(child.Process.Pid)), 0o600)
}

// sleep is longer than any test, and not for ever: should a test fail, nothing is left.
func sleep() {
	time.Sleep(time.Minute)
	os.Exit(1)
}

func appendLine(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString("run\n")
	return errors.Join(err, file.Close())
}
