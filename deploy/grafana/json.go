package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// schemaVersion is that of the dashboards' JSON: Grafana 11's. Later ones read it.
const schemaVersion = 39

var legendLabel = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)

// runbook has a section for each rule of deploy/prometheus.
const runbook = "https://github.com/weirhq/weir/blob/main/docs/runbook.md"

type object = map[string]any

// JSON is the dashboard as Grafana reads it.
func (d Dashboard) JSON() ([]byte, error) {
	var panels []object
	id, y := 0, 0
	for _, r := range d.Rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.Title, "collapsed": false, "panels": []any{},
			"gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		left, shared := 24, 0
		for _, p := range r.Panels {
			left -= p.Width
			if p.Width == 0 {
				shared++
			}
		}
		x := 0
		for _, p := range r.Panels {
			w := p.Width
			if w == 0 {
				w = left / shared
			}
			id++
			o := p.json()
			o["id"], o["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": r.Height}
			panels = append(panels, o)
			x += w
		}
		y += r.Height
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(object{
		"uid": d.UID, "title": d.Title, "description": d.About, "tags": []string{"weir"},
		"schemaVersion": schemaVersion, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s",
		"time": object{"from": d.From, "to": "now"}, "timezone": "browser", "panels": panels,
		"templating":  object{"list": d.variables()},
		"annotations": object{"list": []any{}},
		"links": []object{{"type": "link", "title": "Runbook", "url": runbook, "icon": "doc", "targetBlank": true, "tooltip": "What each alert means, and what to do first",
			"asDropdown": false, "includeVars": false, "keepTime": false, "tags": []any{}}, {"type": "dashboards", "tags": []string{"weir"}, "title": "Weir", "asDropdown": true, "includeVars": true, "keepTime": true,
			"icon": "external link", "targetBlank": false, "tooltip": "", "url": ""}},
	})
	return b.Bytes(), err
}

// sources names the data sources by variables, so that the dashboards work with
// those of the folder's provisioning and with any others.
func (s Source) ref() object {
	if s == Prometheus {
		return object{"type": "prometheus", "uid": "${prometheus}"}
	}
	return object{"type": "grafana-clickhouse-datasource", "uid": "${clickhouse}"}
}

func (d Dashboard) variables() []object {
	asked := make(map[Source]bool)
	for _, r := range d.Rows {
		for _, p := range r.Panels {
			for _, q := range p.Queries {
				asked[q.Source] = true
			}
		}
	}
	var list []object
	for _, s := range slices.Sorted(maps.Keys(asked)) {
		// Where there are several, that of provisioning/ is the first choice.
		title := map[Source]string{ClickHouse: "ClickHouse", Prometheus: "Prometheus"}[s]
		list = append(list, object{"name": string(s), "label": title, "type": "datasource", "query": s.ref()["type"],
			"refresh": 1, "hide": 0, "includeAll": false, "multi": false, "regex": "", "options": []any{},
			"current": object{"text": "Weir " + title, "value": "weir-" + string(s)}})
	}
	for _, v := range d.Vars {
		o := object{"name": v.Name, "label": v.Label, "hide": 0}
		switch v.Source {
		case "":
			o["type"], o["query"], o["options"], o["current"] = "textbox", "", []any{}, object{"text": "", "value": ""}
		case ClickHouse:
			o["query"] = v.Query
		case Prometheus:
			o["query"] = object{"query": v.Query, "refId": "A"}
		}
		if v.Source != "" {
			maps.Copy(o, object{
				"type": "query", "datasource": v.Source.ref(), "refresh": 2, "sort": 1, "regex": "", "options": []any{},
				"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": []string{"All"}, "value": []string{"$__all"}},
			})
		}
		list = append(list, o)
	}
	return list
}

func (p Panel) json() object {
	var targets []object
	for i, q := range p.Queries {
		t := object{"refId": ref(i), "datasource": q.Source.ref()}
		switch q.Source {
		case ClickHouse:
			format, kind := 0, "timeseries"
			if p.Kind == Table {
				format, kind = 1, "table"
			}
			maps.Copy(t, object{"editorType": "sql", "rawSql": q.Text, "format": format, "queryType": kind, "pluginVersion": ""})
		case Prometheus:
			maps.Copy(t, object{"editorMode": "code", "expr": q.Text, "legendFormat": q.Legend, "range": p.Kind != Stat, "instant": p.Kind == Stat})
		}
		targets = append(targets, t)
	}
	o := object{
		"type": string(p.Kind), "title": p.Title, "description": p.About, "datasource": p.Queries[0].Source.ref(), "targets": targets,
		"fieldConfig": object{"defaults": p.defaults(), "overrides": p.overrides()}, "options": p.options(), "transparent": false,
	}
	if len(p.Runbook) > 0 {
		links := make([]object, len(p.Runbook))
		for i, rule := range p.Runbook {
			links[i] = object{"title": "Runbook: " + rule, "url": runbook + "#" + strings.ToLower(rule), "targetBlank": true}
		}
		o["links"] = links
	}
	if p.Kind != Table && p.Kind != Stat && p.Queries[0].Source == ClickHouse {
		o["interval"] = "1m" // the rollups have no finer
	}
	return o
}

func (p Panel) defaults() object {
	steps := []object{{"color": "green", "value": nil}}
	if p.Warn != nil {
		steps = append(steps, object{"color": "red", "value": *p.Warn})
	}
	o := object{"unit": p.Unit, "thresholds": object{"mode": "absolute", "steps": steps}, "mappings": []any{}, "noValue": "–", "custom": object{}}
	if p.Min != nil {
		o["min"] = *p.Min
	}
	if p.Max != nil {
		o["max"] = *p.Max
	}
	if len(p.Values) > 0 {
		meanings := make(object)
		for i, v := range slices.Sorted(maps.Keys(p.Values)) {
			meanings[v] = object{"index": i, "text": p.Values[v], "color": []string{"green", "yellow", "red"}[min(i, 2)]}
		}
		o["mappings"] = []object{{"type": "value", "options": meanings}}
	}
	switch p.Kind {
	case Series:
		c := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "auto", "spanNulls": false, "stacking": object{"mode": "none", "group": "A"}}
		if p.Stacked {
			c["fillOpacity"], c["stacking"] = 30, object{"mode": "normal", "group": "A"}
		}
		o["custom"], o["color"] = c, object{"mode": "palette-classic"}
	case States:
		o["custom"] = object{"fillOpacity": 70, "lineWidth": 0}
		o["color"] = object{"mode": "thresholds"}
	case Stat:
		o["color"] = object{"mode": "thresholds"}
	case Table:
		o["custom"] = object{"align": "auto", "filterable": true, "cellOptions": object{"type": "auto"}}
	}
	for _, q := range p.Queries {
		if q.Source != ClickHouse || q.Legend == "" {
			continue
		}
		o["displayName"] = "${__field.labels." + q.Legend + "}"
		if len(q.Columns) > 3 { // time, the legend's, and more than one number
			o["displayName"] = "${__field.labels." + q.Legend + "} ${__field.name}"
		}
	}
	return o
}

func (p Panel) overrides() []object {
	of := make(map[string][]object)
	for c, unit := range p.Units {
		of[c] = append(of[c], object{"id": "unit", "value": unit})
	}
	for c, link := range p.Links {
		of[c] = append(of[c], object{"id": "links", "value": []object{{"title": "Show it", "url": link, "targetBlank": false}}})
	}
	list := []object{}
	for _, c := range slices.Sorted(maps.Keys(of)) {
		list = append(list, object{"matcher": object{"id": "byName", "options": c}, "properties": of[c]})
	}
	return list
}

func (p Panel) options() object {
	switch p.Kind {
	case Stat:
		return object{"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}, "colorMode": "value", "graphMode": "none",
			"justifyMode": "auto", "orientation": "auto", "textMode": "value", "wideLayout": true}
	case Table:
		return object{"showHeader": true, "cellHeight": "sm"}
	case States:
		return object{"showValue": "auto", "mergeValues": true, "alignValue": "left", "rowHeight": 0.8,
			"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": false}, "tooltip": object{"mode": "single", "sort": "none"}}
	case Series:
	}
	return object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}, "tooltip": object{"mode": "multi", "sort": "desc"}}
}

// File is the name that the dashboard has in dashboards/.
func (d Dashboard) File() string { return strings.TrimPrefix(d.UID, "weir-") + ".json" }

// valid says what is wrong with a definition that JSON would write all the same.
func (d Dashboard) valid() error {
	titles := make(map[string]bool)
	for _, r := range d.Rows {
		width, shared := 0, 0
		for _, p := range r.Panels {
			if titles[p.Title] {
				return fmt.Errorf("%s: two panels are called %q", d.UID, p.Title)
			}
			titles[p.Title] = true
			width += p.Width
			if p.Width == 0 {
				shared++
			}
			for _, q := range p.Queries {
				if q.Source != p.Queries[0].Source {
					return fmt.Errorf("%s: %q asks two sources", d.UID, p.Title)
				}
				if q.Source == ClickHouse && len(q.Columns) == 0 {
					return fmt.Errorf("%s: %q does not say which columns it needs", d.UID, p.Title)
				}
			}
			for _, of := range []map[string]string{p.Units, p.Links} {
				for c := range of {
					if !slices.ContainsFunc(p.Queries, func(q Ask) bool { return slices.Contains(q.Columns, c) }) {
						return fmt.Errorf("%s: %q says something of a column %q that it does not have", d.UID, p.Title, c)
					}
				}
			}
		}
		if width > 24 || shared > 0 && (24-width)/shared < 4 || shared == 0 && width != 24 {
			return fmt.Errorf("%s: row %q does not fill its width", d.UID, r.Title)
		}
	}
	return nil
}
