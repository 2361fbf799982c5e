package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(tidy{m}, map[string]func(){"parley": func() { os.Exit(mainCode()) }})
}

// tidy is the tests, and after them a look at what goroutines they left.
type tidy struct{ m *testing.M }

func (t tidy) Run() int {
	code := t.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestScripts runs the command line as users do. A script's files say what it is about.
func TestScripts(t *testing.T) {
	schemas, err := filepath.Abs(filepath.Join("..", "..", "schemas"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SCHEMAS", schemas)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitCode,
			"hide": hidden,
			"runs": madeRuns,
		},
	})
}

// exitCode is the script command `code N COMMAND...`: the command exits with exactly that code, or with
// one of several (0,3: the load may well be too much for the machine that tests, which a verdict says).
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if !slices.Contains(strings.Split(args[0], ","), got) {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// hidden is the script command `hide TEXT FILE...`: none of the files holds the text.
func hidden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: hide TEXT FILE...")
	}
	for _, name := range args[1:] {
		if strings.Contains(ts.ReadFile(name), args[0]) {
			ts.Fatalf("%s holds %q", name, args[0])
		}
	}
}
