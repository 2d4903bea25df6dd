package main

// mutation is one way to break the code.
type mutation struct {
	name     string
	what     string // the change, in words
	harm     string // what a user would see
	file     string
	old, new string // old occurs once in file
	checks   []check
}

// check is a test run that should fail. The cheapest stands first.
type check struct {
	pkg string
	run string // -run; empty is all tests of the package
	env []string
}

var mutations = []mutation{
	{
		name: "ring-off-by-one",
		what: "a window counts one place fewer than there are",
		harm: "n + 1 messages pass",
		file: "processor/limit/decide.go",
		old:  "if p.cost <= w.n-count {",
		new:  "if p.cost <= w.n-count+1 {",
		checks: []check{{pkg: "processor/limit"}},
	},
	{
		name: "after-for-at",
		what: "`<` for `<=` at a window's edge: a place still counts when it is exactly a window old",
		harm: "refused one millisecond too long",
		file: "processor/limit/decide.go",
		old:  "first = t.after(s, w.opens(now))",
		new:  "first = t.after(s, w.opens(now)-1)",
		checks: []check{{pkg: "processor/limit"}},
	},
}
