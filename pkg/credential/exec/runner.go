// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"time"
	"unicode"
)

const (
	// maxStderr is how much of the standard error is logged, in bytes.
	maxStderr = 4 << 10
	// maxRuns is how many plugins run at the same time: each is a process of some tens of megabytes. One that hangs is in the way of
	// others for no longer than its timeout.
	maxRuns = 16
	// drain is how long the pipes stay open when the plugin is gone: it bounds what a process that left the group can do.
	drain = 500 * time.Millisecond
)

// runner runs plugins.
type runner struct {
	directory string
	// slots has one for each plugin that may run.
	slots chan struct{}
	// beforeStart is called between the check of the file and the start, for tests; it may be nil.
	beforeStart func()
}

// Ends of sentences about a plugin. The log has the rest.
var (
	errTimeout = errors.New("did not end within its timeout; it was killed")
	errOutput  = errors.New("printed more than its limit; it was killed")
	errStart   = errors.New("could not be started")
	errExit    = errors.New("ended with an error")
)

// output keeps what is written to it, up to a limit. What comes after is an error, before which over is called.
type output struct {
	data     bytes.Buffer
	limit    int64
	exceeded bool
	over     func()
}

func (o *output) Write(p []byte) (int, error) {
	if int64(o.data.Len()+len(p)) > o.limit {
		o.exceeded = true
		o.over()
		return 0, errOutput
	}
	return o.data.Write(p)
}

// beginning keeps the first maxStderr bytes of what is written to it, and takes the rest, so that the writer is not held up.
type beginning struct{ data []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), maxStderr-len(b.data))]...)
	return len(p), nil
}

// escapes are the sequences that control a terminal: ESC [ … letter, ESC ] … BEL or ESC \, and ESC with one more character.
var escapes = regexp.MustCompile(`\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?`)

// text is what may be logged: no sequences for a terminal, no characters that control it or that change the direction of text.
func (b *beginning) text() string {
	clean := escapes.ReplaceAllString(strings.ToValidUTF8(string(b.data), ""), "")
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		switch {
		case unicode.IsPrint(c):
			return c
		case unicode.IsSpace(c):
			return ' '
		}
		return -1
	}, clean))
}
