package recipient

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"strconv"
	"sync"

	"github.com/nyaruka/phonenumbers"
)

// The fast path is the library's own metadata in another form: for each calling
// code an automaton over digits that knows what numbers the library leaves as
// they are, and of which country it takes them to be. Reading a number costs one
// look-up a digit, where the library runs some twenty regular expressions.
//
// It is narrower than the library on purpose: where a number's beginning may be
// a national or carrier prefix the library is asked. It is never wider. All
// calling codes together take 250 KB and 0.1 s to make; +1 alone 35 ms.

// metadata is the library's, by region; "001" stands for several and is keyed
// by its calling code.
var metadata = sync.OnceValue(func() map[string]*phonenumbers.PhoneMetadata {
	all, err := phonenumbers.MetadataCollection()
	if err != nil {
		panic(err) // embedded in the binary, and read by the library at its own start
	}
	m := make(map[string]*phonenumbers.PhoneMetadata)
	for _, r := range all.GetMetadata() {
		id := r.GetId()
		if id == worldRegion {
			id = strconv.Itoa(int(r.GetCountryCode()))
		}
		m[id] = r
	}
	return m
})

// worldRegion is what the library calls codes of no country (+800, +883).
const worldRegion = "001"

// node is one state of an automaton: a set of beginnings of one length after
// which every number has the same answer.
type node struct {
	next   [10]uint32 // 0: no number goes on so
	answer uint8      // 0: the library is asked; else 1 + the country's index
}

// automaton answers for one calling code. Node 1 is the start.
type automaton struct {
	nodes     []node
	countries []string
}

// automata has one for each calling code, made when a number first needs it.
var automata = func() (all [1000]func() *automaton) {
	for code := range phonenumbers.GetSupportedCallingCodes() {
		all[code] = sync.OnceValue(func() *automaton { return compilePlan(code) })
	}
	return all
}()

// plain reports whether digits, with +, is canonical beyond doubt, and its
// country. A test compares it with the library for every calling code.
func plain(digits string) (country string, ok bool) {
	if len(digits) < 6 || len(digits) > 1+maxDigits || digits[0] != '+' || digits[1] == '0' {
		return "", false
	}
	code, at := 0, 1
	for at < 4 && automata[code] == nil {
		code = code*10 + int(digits[at]-'0')
		at++
	}
	if automata[code] == nil {
		return "", false
	}
	a := automata[code]()
	n := uint32(1)
	for ; at < len(digits); at++ {
		if n = a.nodes[n].next[digits[at]-'0']; n == 0 {
			return "", false
		}
	}
	k := a.nodes[n].answer
	if k == 0 {
		return "", false
	}
	return a.countries[k-1], true
}

// pattern is one regular expression of a plan.
type pattern struct {
	prog    *syntax.Prog
	offset  uint32  // of its instructions among the plan's
	lengths []int32 // which it holds for; none is any
	begins  bool    // it holds for what begins so, else for whole numbers
}

// typed is how the library tells whether a number is valid in one region.
type typed struct {
	leading int // index of a pattern, or -1
	general int
	types   []int
}

// plan is what the library knows of one calling code.
type plan struct {
	code     int
	regions  []string
	patterns []pattern
	typed    []typed // beside regions
	prefix   int     // the pattern of national and carrier prefixes, or -1
	possible []int32
	mobile   []int32

	nodes   []node
	numbers map[node]uint32   // nodes by content
	known   map[string]uint32 // nodes by depth and state
	answers map[string]uint8
	names   []string
}

func compilePlan(code int) *automaton {
	p := &plan{
		code: code, regions: phonenumbers.GetRegionCodesForCountryCode(code), prefix: -1,
		mobile: mobileLengths()[int32(code)],
		nodes:  make([]node, 1), numbers: map[node]uint32{}, known: map[string]uint32{}, answers: map[string]uint8{},
	}
	lookup := func(region string) *phonenumbers.PhoneMetadata {
		if region == worldRegion {
			region = strconv.Itoa(code)
		}
		return metadata()[region]
	}
	total := uint32(0)
	add := func(text string, lengths []int32, begins bool) int {
		if text == "" {
			return -1
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			panic(err) // the library compiles the same text
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			panic(err)
		}
		p.patterns = append(p.patterns, pattern{prog, total, lengths, begins})
		total += uint32(len(prog.Inst))
		return len(p.patterns) - 1
	}
	main := lookup(p.regions[0])
	p.prefix = add(main.GetNationalPrefixForParsing(), nil, true)
	for _, n := range main.GetGeneralDesc().GetPossibleLength() {
		if !slices.Contains(main.GetGeneralDesc().GetPossibleLengthLocalOnly(), n) {
			p.possible = append(p.possible, n)
		}
	}
	for _, region := range p.regions {
		m := lookup(region)
		t := typed{leading: add(m.GetLeadingDigits(), nil, true), general: add(m.GetGeneralDesc().GetNationalNumberPattern(), m.GetGeneralDesc().GetPossibleLength(), false)}
		for _, d := range []*phonenumbers.PhoneNumberDesc{
			m.GetFixedLine(), m.GetMobile(), m.GetPremiumRate(), m.GetTollFree(), m.GetSharedCost(), m.GetVoip(),
			m.GetPersonalNumber(), m.GetPager(), m.GetUan(), m.GetVoicemail(),
		} {
			if i := add(d.GetNationalNumberPattern(), d.GetPossibleLength(), false); i >= 0 {
				t.types = append(t.types, i)
			}
		}
		p.typed = append(p.typed, t)
	}
	var start []uint32
	for i := range p.patterns {
		start = p.closure(start, &p.patterns[i], uint32(p.patterns[i].prog.Start))
	}
	// A prefix that is nothing at all strips nothing: only what is matched after
	// a digit counts, and so for leading digits, of which none are empty.
	root := p.visit(p.state(start, make([]bool, len(p.patterns))), 0)
	if root == 0 { // no number of this code is ever canonical without the library
		p.nodes = append(p.nodes, node{})
		root = 1
	}
	// The start is node 1: swap it there.
	p.nodes[1], p.nodes[root] = p.nodes[root], p.nodes[1]
	for i := range p.nodes {
		for d, n := range p.nodes[i].next {
			switch n {
			case root:
				p.nodes[i].next[d] = 1
			case 1:
				p.nodes[i].next[d] = root
			}
		}
	}
	return &automaton{nodes: p.nodes, countries: p.names}
}

// state is where the patterns stand after a beginning: the instructions that
// wait for a digit, and which patterns have begun what was read.
type state struct {
	at    []uint32
	begun []bool // by pattern: those with begins alone
	whole []bool // by pattern: what was read is all of it
}

// closure adds the instructions that are reached from pc without a digit. A
// match, whose instruction is kept too, tells that the pattern holds here.
// Assertions are taken to hold: they stand in prefixes alone, where more matches
// mean that the library is asked more often, and elsewhere compile refuses them.
func (p *plan) closure(set []uint32, of *pattern, pc uint32) []uint32 {
	global := of.offset + pc
	if slices.Contains(set, global) {
		return set
	}
	in := &of.prog.Inst[pc]
	switch in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		set = append(set, global) // so that a loop ends
		return p.closure(p.closure(set, of, in.Out), of, in.Arg)
	case syntax.InstCapture, syntax.InstNop:
		set = append(set, global)
		return p.closure(set, of, in.Out)
	case syntax.InstEmptyWidth:
		if !of.begins {
			panic("recipient: an assertion in a pattern of the library's: " + of.prog.String())
		}
		set = append(set, global)
		return p.closure(set, of, in.Out)
	case syntax.InstFail:
		return set
	default:
		return append(set, global)
	}
}

// state sorts out what a closure reached.
func (p *plan) state(reached []uint32, begun []bool) state {
	s := state{begun: slices.Clone(begun), whole: make([]bool, len(p.patterns))}
	for i := range p.patterns {
		of := &p.patterns[i]
		for _, g := range reached {
			if g < of.offset || g >= of.offset+uint32(len(of.prog.Inst)) {
				continue
			}
			switch of.prog.Inst[g-of.offset].Op {
			case syntax.InstMatch:
				s.whole[i] = true
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
				s.at = append(s.at, g)
			}
		}
	}
	slices.Sort(s.at)
	return s
}

func (p *plan) step(s *state, digit rune) state {
	var reached []uint32
	i := 0
	for _, g := range s.at {
		for g >= p.patterns[i].offset+uint32(len(p.patterns[i].prog.Inst)) {
			i++
		}
		of := &p.patterns[i]
		if in := &of.prog.Inst[g-of.offset]; in.MatchRune(digit) {
			reached = p.closure(reached, of, in.Out)
		}
	}
	next := p.state(reached, s.begun)
	for i := range p.patterns {
		if p.patterns[i].begins && next.whole[i] {
			next.begun[i] = true
		}
	}
	return next
}

// visit returns the node of a state after so many digits.
func (p *plan) visit(s state, depth int) uint32 {
	if p.prefix >= 0 && s.begun[p.prefix] {
		return 0 // the library may strip something
	}
	key := binary.AppendUvarint(nil, uint64(depth))
	for i := range p.patterns {
		key = append(key, '0'+bit(s.begun[i])+2*bit(s.whole[i]))
	}
	for _, g := range s.at {
		key = binary.AppendUvarint(key, uint64(g))
	}
	if n, ok := p.known[string(key)]; ok {
		return n
	}
	var n node
	if depth < maxDigits-len(strconv.Itoa(p.code)) {
		for d := range n.next {
			n.next[d] = p.visit(p.step(&s, rune('0'+d)), depth+1)
		}
	}
	n.answer = p.answer(&s, int32(depth))
	number := uint32(0)
	if n != (node{}) {
		var ok bool
		if number, ok = p.numbers[n]; !ok {
			number = uint32(len(p.nodes))
			p.nodes = append(p.nodes, n)
			p.numbers[n] = number
		}
	}
	p.known[string(key)] = number
	return number
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// holds reports whether a pattern is matched by a number of this length that
// ends in this state.
func (p *plan) holds(s *state, i int, length int32) bool {
	of := &p.patterns[i]
	if of.begins {
		return s.begun[i]
	}
	return s.whole[i] && (len(of.lengths) == 0 || slices.Contains(of.lengths, length))
}

// valid is the library's getNumberTypeHelper: of some type in the region.
func (p *plan) valid(s *state, t *typed, length int32) bool {
	if t.general < 0 || !p.holds(s, t.general, length) {
		return false
	}
	return slices.ContainsFunc(t.types, func(i int) bool { return p.holds(s, i, length) })
}

// answer is the library's GetRegionCodeForNumber and what parse makes of it: a
// number is kept if it is possible, and valid or as long as a mobile number.
func (p *plan) answer(s *state, length int32) uint8 {
	if !slices.Contains(p.possible, length) {
		return 0
	}
	region, valid := -1, false
	if len(p.regions) == 1 {
		region, valid = 0, p.valid(s, &p.typed[0], length)
	} else {
		for i := range p.typed {
			t := &p.typed[i]
			if t.leading >= 0 {
				if !p.holds(s, t.leading, length) {
					continue
				}
				region, valid = i, p.valid(s, t, length)
				break
			}
			if p.valid(s, t, length) {
				region, valid = i, true
				break
			}
		}
	}
	if !valid && !slices.Contains(p.mobile, length) {
		return 0
	}
	name := p.regions[max(region, 0)]
	if len(name) != 2 {
		name = ""
	}
	k, ok := p.answers[name]
	if !ok {
		p.names = append(p.names, name)
		k = uint8(len(p.names))
		p.answers[name] = k
	}
	return k
}
