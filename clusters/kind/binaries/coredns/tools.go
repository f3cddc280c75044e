//go:build tools

// Package tools names the program that is built here, so that go.mod and go.sum hold what it needs.
package tools

import _ "github.com/coredns/coredns"
