package tokenizer

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errBeyond says that an expression is well formed, or may be, but beyond what [pattern] does.
var errBeyond = errors.New("beyond the built-in matcher")

// errInexact says that engines differ in what an expression means.
var errInexact = errors.New("its meaning differs between engines")

// compilePattern turns an expression into a pattern. The error is errBeyond where regexp2 is to be used
// instead, and errInexact where not even that would be exact.
func compilePattern(expr string) (*pattern, error) {
	p := &parser{in: expr}
	alts, err := p.alternatives(false)
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.in) {
		return nil, fmt.Errorf("unmatched ) at byte %d", p.pos)
	}
	if len(p.sets) > 63 {
		return nil, errBeyond
	}
	out := &pattern{classes: newClasses(p.sets)}
	for _, nodes := range alts {
		if shortest(nodes) == 0 {
			return nil, errBeyond
		}
		out.alts = append(out.alts, alternative{first: firstOf(nodes), nodes: nodes})
	}
	return out, nil
}

type parser struct {
	in   string
	pos  int
	sets []charset
}

func (p *parser) peek() byte {
	if p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return 0
}

func (p *parser) skip(s string) bool {
	if strings.HasPrefix(p.in[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

func (p *parser) alternatives(fold bool) ([][]node, error) {
	var alts [][]node
	for {
		nodes, err := p.sequence(fold)
		if err != nil {
			return nil, err
		}
		alts = append(alts, nodes)
		if !p.skip("|") {
			return alts, nil
		}
	}
}

func (p *parser) sequence(fold bool) ([]node, error) {
	var nodes []node
	for p.pos < len(p.in) && p.peek() != '|' && p.peek() != ')' {
		n, err := p.atom(fold)
		if err != nil {
			return nil, err
		}
		if err := p.quantifier(&n); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (p *parser) atom(fold bool) (node, error) {
	switch {
	case p.skip("(?:"):
		return p.group(nodeGroup, fold)
	case p.skip("(?i:"):
		return p.group(nodeGroup, true)
	case p.skip("(?="):
		return p.group(nodeAhead, fold)
	case p.skip("(?!"):
		return p.group(nodeNotAhead, fold)
	case strings.HasPrefix(p.in[p.pos:], "(?"):
		return node{}, errBeyond
	case p.skip("("):
		return p.group(nodeGroup, fold)
	case p.skip("["):
		return p.class(fold)
	case p.skip("."):
		return p.set(charset{negated: true, ranges: []runeRange{{'\n', '\n'}}}), nil
	case p.skip(`\`):
		c, single, err := p.escape()
		if err != nil {
			return node{}, err
		}
		if single {
			c.folded = fold
		}
		return p.set(c), nil
	}
	switch p.peek() {
	case '^', '$':
		return node{}, errBeyond
	case '*', '+', '?':
		return node{}, fmt.Errorf("nothing to repeat at byte %d", p.pos)
	}
	r, size := utf8.DecodeRuneInString(p.in[p.pos:])
	p.pos += size
	return p.set(charset{folded: fold, ranges: []runeRange{{r, r}}}), nil
}

// group reads what follows an opening parenthesis. A group that repeats must be able to end in one place
// only for each alternative; otherwise trying its alternatives in order would not be all of backtracking.
func (p *parser) group(kind nodeKind, fold bool) (node, error) {
	alts, err := p.alternatives(fold)
	if err != nil {
		return node{}, err
	}
	if !p.skip(")") {
		return node{}, fmt.Errorf("missing ) at byte %d", p.pos)
	}
	if kind == nodeGroup {
		for _, alt := range alts {
			if !onceEach(alt) || len(alt) == 0 {
				return node{}, errBeyond
			}
		}
	}
	return node{kind: kind, min: 1, max: 1, alts: alts}, nil
}

func (p *parser) quantifier(n *node) error {
	from := p.pos
	switch {
	case p.skip("?"):
		n.min, n.max = 0, 1
	case p.skip("*"):
		n.min, n.max = 0, -1
	case p.skip("+"):
		n.min, n.max = 1, -1
	case p.peek() == '{':
		end := strings.IndexByte(p.in[p.pos:], '}')
		if end < 0 {
			return errBeyond
		}
		lo, hi, two := strings.Cut(p.in[p.pos+1:p.pos+end], ",")
		var err error
		if n.min, err = strconv.Atoi(lo); err != nil || n.min < 0 {
			return errBeyond
		}
		switch {
		case !two:
			n.max = n.min
		case hi == "":
			n.max = -1
		default:
			if n.max, err = strconv.Atoi(hi); err != nil || n.max < n.min {
				return errBeyond
			}
		}
		p.pos += end + 1
	default:
		return nil
	}
	switch p.peek() {
	case '+':
		// In regexp2's dialect {1,3}+ is a repeat of a repeat, in the others a possessive one; both give
		// the same for what these patterns say.
		p.pos++
		n.possessive = true
	case '?', '*', '{':
		return errBeyond
	}
	if n.kind == nodeAhead || n.kind == nodeNotAhead || n.kind == nodeGroup && n.max != 1 {
		p.pos = from
		return errBeyond
	}
	return nil
}

// set gives the node of a set, reusing an equal one.
func (p *parser) set(c charset) node {
	for i := range p.sets {
		if reflect.DeepEqual(p.sets[i], c) {
			return node{bit: 1 << i, min: 1, max: 1}
		}
	}
	p.sets = append(p.sets, c)
	if len(p.sets) > 63 {
		return node{min: 1, max: 1} // compilePattern gives up on it
	}
	return node{bit: 1 << (len(p.sets) - 1), min: 1, max: 1}
}

// class reads what follows an opening bracket, as a node.
func (p *parser) class(fold bool) (node, error) {
	c, err := p.charset(fold)
	return p.set(c), err
}

// charset reads what follows an opening bracket: characters, ranges, tables and classes, and after && what
// a character has to be in besides.
func (p *parser) charset(fold bool) (charset, error) {
	c := charset{folded: fold, negated: p.skip("^")}
	to := &c // where members go: to the class, or to what follows a &&
	for first := true; ; first = false {
		if p.pos >= len(p.in) {
			return c, errors.New("missing ]")
		}
		switch {
		case p.peek() == ']' && !first:
			p.pos++
			return c, nil
		case p.skip("&&"):
			c.and = append(c.and, charset{folded: fold})
			to = &c.and[len(c.and)-1]
			continue
		case strings.HasPrefix(p.in[p.pos:], "[:"):
			return c, fmt.Errorf("POSIX classes: %w", errInexact)
		case p.skip("["):
			inner, err := p.charset(fold)
			if err != nil {
				return c, err
			}
			to.inner = append(to.inner, inner)
			continue
		}
		lo, member, err := p.member()
		if err != nil {
			return c, err
		}
		if member != nil {
			to.tables = append(to.tables, member.tables...)
			continue
		}
		hi := lo
		if p.peek() == '-' && p.pos+1 < len(p.in) && p.in[p.pos+1] != ']' {
			p.pos++
			if hi, member, err = p.member(); err != nil {
				return c, err
			}
			if member != nil || hi < lo {
				return c, fmt.Errorf("bad range in a class at byte %d", p.pos)
			}
		}
		to.ranges = append(to.ranges, runeRange{lo, hi})
	}
}

// member reads one character of a class, or one of its tables.
func (p *parser) member() (rune, *charset, error) {
	if p.skip(`\`) {
		c, single, err := p.escape()
		if err != nil || single {
			var r rune
			if single {
				r = c.ranges[0].lo
			}
			return r, nil, err
		}
		return 0, &c, nil
	}
	r, size := utf8.DecodeRuneInString(p.in[p.pos:])
	p.pos += size
	return r, nil, nil
}

// escape reads what follows a backslash; single says that it stands for one character.
func (p *parser) escape() (c charset, single bool, err error) {
	if p.pos >= len(p.in) {
		return c, false, errors.New("a backslash at the end")
	}
	one := func(r rune) (charset, bool, error) {
		return charset{ranges: []runeRange{{r, r}}}, true, nil
	}
	r, size := utf8.DecodeRuneInString(p.in[p.pos:])
	p.pos += size
	switch r {
	case 's', 'S':
		return charset{tables: []tableRef{{unicode.White_Space, r == 'S'}}}, false, nil
	case 'd', 'D':
		return charset{tables: []tableRef{{unicode.Nd, r == 'D'}}}, false, nil
	case 'p', 'P':
		name := ""
		if p.skip("{") {
			end := strings.IndexByte(p.in[p.pos:], '}')
			if end < 0 {
				return c, false, errors.New("missing } after a property")
			}
			name = p.in[p.pos : p.pos+end]
			p.pos += end + 1
		} else if p.pos < len(p.in) {
			name = p.in[p.pos : p.pos+1]
			p.pos++
		}
		negated := r == 'P'
		if strings.HasPrefix(name, "^") {
			name, negated = name[1:], !negated
		}
		table := unicode.Categories[name]
		if table == nil {
			table = unicode.Scripts[name]
		}
		if table == nil {
			return c, false, fmt.Errorf("property %q is not known", name)
		}
		return charset{tables: []tableRef{{table, negated}}}, false, nil
	case 'n':
		return one('\n')
	case 'r':
		return one('\r')
	case 't':
		return one('\t')
	case 'f':
		return one('\f')
	case 'v':
		return one('\v')
	case 'x', 'u':
		digits := 2
		if r == 'u' {
			digits = 4
		}
		if p.peek() == '{' || p.pos+digits > len(p.in) {
			return c, false, errBeyond
		}
		v, err := strconv.ParseUint(p.in[p.pos:p.pos+digits], 16, 32)
		if err != nil {
			return c, false, errBeyond
		}
		p.pos += digits
		return one(rune(v))
	case 'w', 'W', 'b', 'B', 'h', 'H', 'X', 'R':
		return c, false, fmt.Errorf(`\%c: %w`, r, errInexact)
	}
	if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		return c, false, errBeyond
	}
	return one(r)
}
