//go:build tools

// Package tools names the programs that are built here, so that go.mod and go.sum hold what they need.
package tools

import (
	_ "sigs.k8s.io/krew/cmd/krew"
)
