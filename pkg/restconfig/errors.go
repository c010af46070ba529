// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Reason says which kind of rule a field broke. It is an enum and may become a metric label.
type Reason string

const (
	// ReasonForbidden: the field is understood and refused, for example a file path or a plugin.
	ReasonForbidden Reason = "Forbidden"
	// ReasonDenied: the field is refused because Options do not accept it.
	ReasonDenied Reason = "Denied"
	// ReasonMissing: a field that is needed is absent or empty.
	ReasonMissing Reason = "Missing"
	// ReasonInvalid: the field has a value of the wrong type or form.
	ReasonInvalid Reason = "Invalid"
	// ReasonUnknown: the key is none that a kubeconfig has.
	ReasonUnknown Reason = "Unknown"
	// ReasonDuplicate: a key or an entry name occurs twice.
	ReasonDuplicate Reason = "Duplicate"
	// ReasonNotFound: the field names an entry that the file does not have.
	ReasonNotFound Reason = "NotFound"
	// ReasonAmbiguous: the file has several contexts and nothing says which one is meant.
	ReasonAmbiguous Reason = "Ambiguous"
	// ReasonTooLarge: the file, or a field, exceeds its limit.
	ReasonTooLarge Reason = "TooLarge"
)

func (r Reason) phrase() string {
	switch r {
	case ReasonForbidden, ReasonDenied:
		return "is not accepted"
	case ReasonMissing:
		return "is missing"
	case ReasonUnknown:
		return "is not a known key"
	case ReasonDuplicate:
		return "occurs twice"
	case ReasonNotFound:
		return "names an entry that does not exist"
	case ReasonAmbiguous:
		return "is ambiguous"
	case ReasonTooLarge:
		return "is too large"
	case ReasonInvalid:
	}
	return "is not valid"
}

// FieldError is the first rule that an input broke. It holds no value of the input, so that it may be shown in a
// condition, an event or a log; it wraps nothing, so that no library's text can carry a value along.
type FieldError struct {
	// Field is the path of the key, for example "users[].user.tokenFile"; "kubeconfig" stands for the whole file.
	Field string
	// Entry says which entry of the list it is: its name in quotes, cut to 63 characters, or "#2" for the second one
	// when the name is empty or not printable. Empty for fields outside of the lists.
	Entry string
	// Reason is the kind of rule.
	Reason Reason
	// NextStep tells a person what to do.
	NextStep string
}

// Error gives the text: field, entry, what is wrong and the next step. It is the same for the same input.
func (e *FieldError) Error() string {
	text := e.Field
	if e.Entry != "" {
		text += " of entry " + e.Entry
	}
	text += " " + e.Reason.phrase()
	if e.NextStep != "" {
		text += ": " + e.NextStep
	}
	return text
}

// problem is a broken rule that does not know yet which field it is about.
type problem struct {
	reason Reason
	next   string
}

func (p *problem) at(field, entry string) *FieldError {
	return &FieldError{Field: field, Entry: entry, Reason: p.reason, NextStep: p.next}
}

// maxEntryName is the longest part of an entry name that an error shows, in characters: that of a DNS label (RFC 1123).
const maxEntryName = 63

// entryName renders the name of the entry at index i (from 0) for an error.
func entryName(name string, i int) string {
	position := "#" + strconv.Itoa(i+1)
	if name == "" || !utf8.ValidString(name) {
		return position
	}
	count := 0
	for at, r := range name {
		if count == maxEntryName {
			name = name[:at]
			break
		}
		// Not only control characters: also those that reorder text on a terminal (category Cf) are not printable.
		if !unicode.IsPrint(r) {
			return position
		}
		count++
	}
	return strconv.Quote(name)
}
