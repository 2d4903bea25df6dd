package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirhq/weir/docs"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// explainTypes lists the types of providers.
func explainTypes(w io.Writer, types provider.Types) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TYPE\tCHANNELS\tRECEIPTS AND INBOUND OVER HTTP")
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		listens := "no"
		if types[typ].Listen != nil {
			listens = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", typ, channelsOf(typ), listens)
	}
	return table.Flush()
}

func channelsOf(typ string) string {
	var out []string
	for _, c := range schemas.ProviderTypes[typ] {
		out = append(out, string(c))
	}
	return strings.Join(out, ", ")
}

// explainType says what a type's settings are and what its codes mean.
func explainType(w io.Writer, types provider.Types, name string) error {
	typ, ok := types[name]
	if !ok {
		return usagef("no type of provider is called %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(types)), ", "))
	}
	fmt.Fprintf(w, "%s carries %s.", name, channelsOf(name))
	if typ.Open == nil {
		fmt.Fprint(w, " Weir does not call it.")
	}
	fmt.Fprintln(w)
	if block, _ := docs.ProviderSettings(name); block != "" {
		fmt.Fprintf(w, "\n%s", block)
	}
	codes := typ.Codes
	if codes == nil {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nANSWER\tOUTCOME\tRECEIVED\tSUPPRESSED AS\tMEANS")
	for _, c := range append(slices.Clone(codes.Send), withCode(codes.Else, "any other")) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", c.Code, c.Kind, received(c), dash(string(c.Suppress)), means(c))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(codes.Receipt) > 0 {
		fmt.Fprintln(table, "\nRECEIPT\tSTATUS\tSUPPRESSED AS\tMEANS")
		for _, c := range codes.Receipt {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Code, receiptStatus(c.Kind), dash(string(c.Suppress)), c.Means)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nRead in")
	for _, s := range codes.Sources {
		fmt.Fprintf(w, "  %s\n  %s\n", s.Title, s.URL)
	}
	return nil
}

func withCode(c provider.Code, code string) provider.Code {
	c.Code = code
	return c
}

// received says whether the recipient may have a message whose call failed.
func received(c provider.Code) string {
	switch {
	case c.Kind == provider.Accepted:
		return "–"
	case c.MayBeReceived, c.Kind == provider.Unknown:
		return "perhaps"
	}
	return "no"
}

// means marks what is the recipient's own failure and says nothing of the provider, and
// of a throttled call whom the provider throttles.
func means(c provider.Code) string {
	switch {
	case c.OfRecipient || c.Suppress != "":
		return c.Means + " (the recipient's own)"
	case c.OfProvider:
		return c.Means + " (all recipients)"
	case c.Kind == provider.Throttled:
		return c.Means + " (this recipient or all: not known)"
	}
	return c.Means
}

func receiptStatus(k provider.Kind) string {
	switch k {
	case provider.Accepted:
		return string(schemas.StatusDelivered)
	case provider.Permanent:
		return string(schemas.StatusUndelivered)
	case provider.Throttled, provider.Transient, provider.Unknown:
	}
	return "on its way"
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
