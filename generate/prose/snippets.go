package prose

// snippetTexts are the templates of code. A dollar sign and a letter stand for a name, in capitals for the same
// name with a capital; $7, $8 and $9 are numbers. Names do not stand at the start of a line.
var snippetTexts = [contents][]string{
	Source: {
		`
func ($a *$B) $C(ctx context.Context, $d string) (*$E, error) {
	if $d == "" {
		return nil, errors.New("$c: no $d")
	}
	$e, ok := $a.$f[$d]
	if !ok {
		return nil, fmt.Errorf("$c %s: %w", $d, Err$G)
	}
	return $e, nil
}
`, `
	for i, $a := range $b.$C {
		if $a.$D < $9 || i > $8 {
			continue
		}
		$e = append($e, $f{$D: $a.$D, $G: i})
	}
	sort.Slice($e, func(i, j int) bool { return $e[i].$D < $e[j].$D })
`, `
// $A holds the $b of one $c.
type $A struct {
	$D   string            ` + "`json:\"$d\"`" + `
	$E   map[string]int64  ` + "`json:\"$e,omitempty\"`" + `
	$F   []*$G             ` + "`json:\"$f\"`" + `
	mu   sync.Mutex
}
`, `
func Test$A$B(t *testing.T) {
	for _, c := range []struct{ $d, want string }{
		{"$e", "$f"},
		{"", "$9"},
		{"$f-$g", "$g:$8"},
	} {
		if got := $a(c.$d); got != c.want {
			t.Errorf("$a(%q) = %q, want %q", c.$d, got, c.want)
		}
	}
}
`, `
	$a, err := os.Open(filepath.Join($b, "$c.json"))
	if err != nil {
		return fmt.Errorf("open $c: %w", err)
	}
	defer $a.Close()
	if err := json.NewDecoder($a).Decode(&$d); err != nil {
		return fmt.Errorf("decode $c: %w", err)
	}
`, `
class $A($B):
    """The $c of a $d."""

    def __init__(self, $e: int = $9, $f: str | None = None):
        super().__init__()
        self.$e = $e
        self._$f = $f or "$g"

    def $d(self) -> dict[str, int]:
        return {key: value * self.$e for key, value in self._$g.items() if key != self._$f}
`, `
def $a_$b($c, *, $d=$9):
    if not $c:
        raise ValueError(f"$c is empty: {$c!r}")
    $e = [$f for $f in $c if $f.$g >= $d]
    return sum($f.$g for $f in $e) / max(1, len($e))
`, `
    with open(self.$a / "$b.csv", newline="") as file:
        for row in csv.DictReader(file):
            $c[row["$d"]].append(float(row["$e"]))
    assert len($c) == $9, f"$c: {len($c)}"
`, `
export async function $a$B($c: string, options: $D = {}): Promise<$E[]> {
  const response = await fetch(` + "`/api/$f/` + $c" + `, { method: "POST", body: JSON.stringify(options) });
  if (!response.ok) {
    throw new Error("$f failed: " + response.status);
  }
  const { $g = [] } = await response.json();
  return $g.map(($h) => ({ ...$h, $c, $i: $h.$i ?? $9 }));
}
`, `
  const [$a, set$A] = useState<$B | null>(null);
  useEffect(() => {
    const $c = setInterval(() => set$A(($d) => ($d ? { ...$d, $e: $d.$e + 1 } : $d)), $9);
    return () => clearInterval($c);
  }, [$f.$g]);
`, `
	switch $a := $b.(type) {
	case *$C:
		return $a.$D(), nil
	case []$E:
		return len($a) * $9, nil
	default:
		return 0, fmt.Errorf("$b: unexpected %T", $a)
	}
`, `
SELECT $a.$b, COUNT(*) AS $c
FROM $d AS $a JOIN $e ON $e.$b = $a.id
WHERE $a.$f > $9 AND $e.$g IS NOT NULL
GROUP BY $a.$b ORDER BY $c DESC LIMIT $8;
`,
	},
	Records: {
		`
{"id": $9, "$a": "$b", "$c": {"$d": $8, "$e": ["$f", "$g"]}, "enabled": true}
`, `
{"path": "src/$a/$b.go", "line": $9, "column": $8, "text": "func $c($d *$E) error {"}
`, `
{"name": "$a-$b", "version": "$9.$8.$7", "dependencies": {"$c": "^$8.$9.0", "@$d/$e": "~$7.$8.0"}}
`, `
{"timestamp": "2025-06-17T09:$9:00Z", "level": "warn", "component": "$a", "message": "$b of $c took too long", "ms": $8}
`, `
{"type": "$a", "items": [{"key": "$b", "value": $9}, {"key": "$c", "value": null}], "next": "/$d/$e?page=$8"}
`,
	},
	Output: {
		`
src/$a/$b.go:$9:$8: undefined: $c.$D
`, `
src/$a/$b_test.go:$9:	if got := $c.$D($e); got != nil {
`, `
--- FAIL: Test$A$B (0.$9s)
    $a_test.go:$8: $b: got $9, want $7
`, `
ok  	example.com/$a/$b	0.$9s	coverage: $8% of statements
`, `
diff --git a/$a/$b.py b/$a/$b.py
@@ -$9,$8 +$9,$7 @@ def $c($d):
-    return $e.$f($d)
+    return $e.$f($d, $g=True)
`, `
-rw-r--r--  1 $a $b  $9 Jun 17 09:41 $c/$d.ts
`, `
Traceback (most recent call last):
  File "/app/$a/$b.py", line $9, in $c
    $d = $e["$f"]
KeyError: '$f'
`,
	},
}
