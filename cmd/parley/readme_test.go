package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Every command of parley on the front page names verbs and flags that there are, and its profile does too.
func TestFrontPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var line commandLine
	parse := func(args ...string) {
		t.Helper()
		line = commandLine{}
		k, err := kong.New(&line, kong.Name("parley"), kong.Configuration(loadProfile))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Parse(args); err != nil {
			t.Errorf("parley %s: %v", strings.Join(args, " "), err)
		}
	}
	commands := 0
	for text := range strings.Lines(string(page)) {
		args := words(strings.ReplaceAll(text, "$i", "1")) // of a loop of the shell
		if !strings.HasPrefix(text, "    ") || len(args) < 3 || args[0] != "parley" || args[2] == "->" {
			continue
		}
		commands++
		parse(args[1:]...)
	}
	if commands < 10 {
		t.Errorf("only %d commands were found on the page", commands)
	}
	_, profile, _ := strings.Cut(string(page), "```yaml\n")
	profile, _, ok := strings.Cut(profile, "```")
	file := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil || !ok {
		t.Fatal(err, ok)
	}
	parse("replay", "chat.parquet", "--profile", file)
	if c := line.Replay.Concurrency; c == nil || *c != "64" {
		t.Error("the page's profile gives no concurrency of 64")
	}
}
