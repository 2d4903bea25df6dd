package grafana

// Source is what a query is asked of.
type Source string

const (
	ClickHouse Source = "clickhouse"
	Prometheus Source = "prometheus"
)

// Dashboard is one page.
type Dashboard struct {
	UID   string // stable: it is in people's bookmarks
	Title string
	About string
	From  string // the time range it opens with, such as "now-6h"
	Vars  []Var
	Rows  []Row
}

// Row is a titled line of panels, which share its width evenly unless they say
// otherwise.
type Row struct {
	Title  string
	Height int // of its panels, in Grafana's units of 30 pixels
	Panels []Panel
}

// Kind is how a panel shows what its queries answer. ClickHouse's answers must
// fit: Series and States need a column `time` in ascending order, and, beside
// columns of numbers, columns of text only, which tell series apart.
type Kind string

const (
	Series Kind = "timeseries"
	States Kind = "state-timeline"
	Stat   Kind = "stat"
	Table  Kind = "table"
)

// Panel is one of them.
type Panel struct {
	Title   string
	About   string // what to read in it, shown behind the ⓘ
	Kind    Kind
	Unit    string // of all numbers but those in Units: one of Grafana's
	Stacked bool
	Width   int      // of 24; 0 shares what is left
	Min     *float64 // of the axis
	Max     *float64
	Warn    *float64 // from here on it is red
	Units   map[string]string
	Links   map[string]string // column: where a click leads
	Values  map[string]string // what numbers mean, such as "2": "open"
	Runbook []string          // rules of deploy/prometheus that look at the same: links to what to do
	Queries []Ask
}

// Ask is a query as Grafana has it, with macros and variables.
type Ask struct {
	Source  Source
	Text    string
	Columns []string // ClickHouse: all columns of the answer, in order
	Legend  string   // Prometheus: {{label}}; ClickHouse: the column of text that names series, if there is one
}

// Var is a choice at the top of a dashboard.
type Var struct {
	Name   string
	Label  string
	Source Source // asked for the choices; "" is a field to type in
	Query  string // ClickHouse: one column; Prometheus: label_values(metric, label)
}

func sql(columns []string, text string) Ask {
	return Ask{Source: ClickHouse, Text: text, Columns: columns}
}

func promql(legend, text string) Ask { return Ask{Source: Prometheus, Text: text, Legend: legend} }

func cols(names ...string) []string { return names }

// The choices of more than one dashboard.
var (
	tenantVar   = Var{Name: "tenant", Label: "Tenant", Source: ClickHouse, Query: "SELECT DISTINCT tenant FROM status_by_minute_state WHERE $__timeFilter(minute) AND tenant != '' ORDER BY tenant"}
	classVar    = Var{Name: "class", Label: "Class", Source: ClickHouse, Query: "SELECT DISTINCT class FROM status_by_minute_state WHERE $__timeFilter(minute) AND class != '' ORDER BY class"}
	providerVar = Var{Name: "provider", Label: "Provider", Source: ClickHouse, Query: "SELECT DISTINCT provider FROM status_by_minute_state WHERE $__timeFilter(minute) AND provider != '' ORDER BY provider"}
	jobVar      = Var{Name: "job", Label: "Weir", Source: Prometheus, Query: "label_values(weir_policy_void_records_total, job)"}
	messageVar  = Var{Name: "message", Label: "Message id"}
)

// What SQL is narrowed by. Names of tenants, classes and providers have neither
// quotes nor backslashes; a message's id is whatever a producer wrote, or somebody
// typed, so it comes in percent-encoded.
const (
	byTenantClass = "$__conditionalAll(tenant IN (${tenant:singlequote}), $tenant) AND $__conditionalAll(class IN (${class:singlequote}), $class)"
	byProvider    = "$__conditionalAll(provider IN (${provider:singlequote}), $provider)"
	theMessage    = "message_id = decodeURLComponent('${message:percentencode}')"
)

// theDecisions are those on a message. The decision log is not in the order of
// messages: of all its days only those are read on which the message lived, and a day
// around them; of one that has no status yet, the last.
const theDecisions = theMessage +
	" AND at >= (SELECT if(count() = 0, now64(3), min(at)) - INTERVAL 1 DAY FROM status_events WHERE " + theMessage + ")" +
	" AND at <= (SELECT if(count() = 0, now64(3), max(at)) + INTERVAL 1 DAY FROM status_events WHERE " + theMessage + ")"

// What every end that a provider had a part in is called. Refusals by a limit and
// the like are no failures of a delivery.
const triedEnds = "status IN ('sent', 'failed', 'unknown', 'expired')"

// Dashboards are all of them.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), providers(), limits(), pipeline(), message()}
}

func at(v float64) *float64 { return &v }
