// Command pause holds the namespaces of a pod open until it is told to end. Where the pod's containers share one
// process tree it is their init: it collects those whose parents are gone.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range heard {
		if received != syscall.SIGCHLD {
			return
		}
		// One signal may stand for several children.
		for {
			child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if child <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}
