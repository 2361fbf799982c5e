// Command parley benchmarks LLM servers with multi-turn conversations: generate makes a dataset, replay
// streams it through a server, analyze tells what came of it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(mainCode())
}

// mainCode wires the process to the program. The first two interrupts are the program's to handle; the
// third ends the process at once. A closed terminal ends nothing: a run's rows are worth more.
func mainCode() int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	interrupts := make(chan struct{}, 2)
	go func() {
		for n := 1; ; n++ {
			<-caught
			if n > 2 {
				os.Exit(codeInterrupted)
			}
			interrupts <- struct{}{}
		}
	}()
	p := &program{
		args:       os.Args[1:],
		stdin:      os.Stdin,
		stdout:     os.Stdout,
		stderr:     os.Stderr,
		interrupts: interrupts,
	}
	return p.run(context.Background())
}
