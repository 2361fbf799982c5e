package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReliabilityTable: every check that the reliability page names is there.
func TestReliabilityTable(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "replay", "RELIABILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	named := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || !strings.Contains(cells[3], ".go") {
			continue
		}
		file := strings.Trim(cells[3], " `")
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			name, want := m[1], ""
			slow := strings.HasPrefix(name, "TestSoak/")
			switch {
			case slow:
				method := strings.TrimPrefix(name, "TestSoak/")
				list, err := os.ReadFile("soak_test.go")
				if err != nil {
					t.Fatal(err)
				}
				m := regexp.MustCompile(`\{"` + method + `", s\.(\w+)\}`).FindStringSubmatch(string(list))
				if m == nil {
					t.Errorf("%s is not in soak_test.go", name)
					continue
				}
				want = "func (s *soak) " + m[1] + "("
			case strings.HasPrefix(name, "Test"), strings.HasPrefix(name, "Fuzz"), name == "reconciled":
				want = "func " + name + "("
			default:
				t.Errorf("what is %q?", name)
				continue
			}
			named++
			if !strings.Contains(string(source), want) {
				t.Errorf("%s is not in %s", name, file)
			}
			if when := strings.TrimSpace(cells[4]); slow && when != "slow" {
				t.Errorf("%s is slow, the page says %s", name, when)
			}
		}
	}
	if named < 80 {
		t.Errorf("only %d checks were found on the page", named)
	}
}
