package engine

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// request is what a URL and its headers say, beside the statement.
type request struct {
	query    string
	database string
	format   string // of the answer where the statement does not say; never ""
	queryID  string
	method   string // of compressed frames: LZ4 or ZSTD
	framed   bool   // compress=1: answer in compressed frames
	unframe  bool   // decompress=1: the body is in compressed frames
	revision bool   // the client reads the Native format as of its own revision
	zip      bool   // enable_http_compression=1
	settings []setting
	params   []param
}

// notSettings are the parameters of ClickHouse's HTTP interface that are no
// settings. Those that are not read here have no meaning without users,
// sessions and streaming.
var notSettings = map[string]bool{
	"query": true, "database": true, "default_format": true, "query_id": true,
	"compress": true, "decompress": true, "client_protocol_version": true,
	"user": true, "password": true, "quota_key": true, "role": true, "stacktrace": true,
	"session_id": true, "session_timeout": true, "session_check": true, "close_session": true,
	"buffer_size": true, "wait_end_of_query": true, "http_write_exception_in_output_format": true,
}

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseRequest reads a request's parameters. An error is an *exception.
func parseRequest(r *http.Request) (request, error) {
	// ClickHouse takes a bare semicolon as part of a value; Go refuses it.
	values, err := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, ";", "%3B"))
	if err != nil {
		return request{}, raise(36, "BAD_ARGUMENTS", "The URL cannot be read: %v", err)
	}
	q := request{
		query:    values.Get("query"),
		database: cmp.Or(values.Get("database"), r.Header.Get("X-ClickHouse-Database")),
		format:   cmp.Or(values.Get("default_format"), r.Header.Get("X-ClickHouse-Format"), "TabSeparated"),
		queryID:  values.Get("query_id"),
		method:   strings.ToUpper(values.Get("network_compression_method")),
		framed:   isTrue(values.Get("compress")),
		unframe:  isTrue(values.Get("decompress")),
		revision: values.Get("client_protocol_version") != "",
		zip:      isTrue(values.Get("enable_http_compression")),
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		switch key, isParam := strings.CutPrefix(name, "param_"); {
		case isParam:
			q.params = append(q.params, param{key, value})
		case notSettings[name]:
		case !settingName.MatchString(name):
			return request{}, raise(codeUnknownSetting, "UNKNOWN_SETTING", "Unknown setting '%s'", name)
		default:
			q.settings = append(q.settings, setting{name, value})
		}
	}
	return q, nil
}

func isTrue(s string) bool { return s == "1" || s == "true" }

// contentType is the media type of an output format.
func contentType(format string) string {
	switch {
	case format == "JSONEachRow", strings.HasPrefix(format, "JSONCompactEachRow"), format == "JSONLines", format == "NDJSON":
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(format, "JSON"):
		return "application/json; charset=UTF-8"
	case strings.HasPrefix(format, "TabSeparated"), strings.HasPrefix(format, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case format == "CSVWithNames", format == "CSVWithNamesAndTypes":
		return "text/csv; charset=UTF-8; header=present"
	case strings.HasPrefix(format, "CSV"):
		return "text/csv; charset=UTF-8; header=absent"
	case format == "XML":
		return "application/xml; charset=UTF-8"
	case format == "Native", strings.HasPrefix(format, "RowBinary"), format == "Parquet", strings.HasPrefix(format, "Arrow"), format == "ORC":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
