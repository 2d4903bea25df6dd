package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/schemas/weirpb"
)

// These tests hold the Go types, the JSON Schemas and weir.proto to one
// another: a field or a value that one of them has and another lacks fails.

// schemaNode is what the tests read of a JSON Schema.
type schemaNode struct {
	Description          string                 `json:"description"`
	Type                 any                    `json:"type"`
	Ref                  string                 `json:"$ref"`
	Enum                 []any                  `json:"enum"`
	Format               string                 `json:"format"`
	Properties           map[string]*schemaNode `json:"properties"`
	Required             []string               `json:"required"`
	Items                *schemaNode            `json:"items"`
	AdditionalProperties json.RawMessage        `json:"additionalProperties"`
	Defs                 map[string]*schemaNode `json:"$defs"`
	MaxLength            int                    `json:"maxLength"`
	MaxProperties        int                    `json:"maxProperties"`
	Examples             []json.RawMessage      `json:"examples"`
}

func readSchema(t testing.TB, file string) *schemaNode {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s schemaNode
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func compileSchema(t testing.TB, file string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkSchema(s *jsonschema.Schema, value []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// types lists a node's JSON types without null, and whether null was one.
func (n *schemaNode) types() (types []string, null bool) {
	all, ok := n.Type.([]any)
	if !ok {
		all = []any{n.Type}
	}
	for _, v := range all {
		if v == "null" {
			null = true
		} else if v, ok := v.(string); ok {
			types = append(types, v)
		}
	}
	return types, null
}

type goField struct {
	name, option string
	typ          reflect.Type
}

func goFields(t reflect.Type) []goField {
	var out []goField
	for f := range t.Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" { // no field of the contract
			continue
		}
		out = append(out, goField{name, option, f.Type})
	}
	return out
}

// holdToSchema holds one Go struct to one object of a schema, and what it
// refers to.
func holdToSchema(t *testing.T, typ reflect.Type, node *schemaNode, defs map[string]*schemaNode, where string) {
	names := map[string]bool{}
	for _, f := range goFields(typ) {
		names[f.name] = true
		at := where + "/" + f.name
		p := node.Properties[f.name]
		if p == nil {
			t.Errorf("%s: Go has it, the JSON Schema has not", at)
			continue
		}
		if p.Description == "" {
			t.Errorf("%s: no description", at)
		}
		required := slices.Contains(node.Required, f.name)
		if where != "request" && required != (f.option == "") {
			t.Errorf("%s: required is %v, but Go's option is %q", at, required, f.option)
		}
		types, null := p.types()
		want := ""
		if f.typ == reflect.TypeFor[*int32]() { // a number that may be 0 and may be absent
			f.typ = f.typ.Elem()
		}
		switch {
		case f.typ == reflect.TypeFor[Millis]():
			want = "string"
			if p.Format != "date-time" {
				t.Errorf("%s: a time without format date-time", at)
			}
			if f.option == "" && !null {
				t.Errorf("%s: Go writes null where it is absent, and the schema does not allow it", at)
			}
		case f.typ.Kind() == reflect.String:
			want = "string"
		case f.typ.Kind() == reflect.Bool:
			want = "boolean"
		case f.typ.Kind() == reflect.Int, f.typ.Kind() == reflect.Int32, f.typ.Kind() == reflect.Int64:
			want = "integer"
		case f.typ.Kind() == reflect.Map:
			want = "object"
		case f.typ.Kind() == reflect.Slice:
			want = "array"
			if p.Items == nil || p.Items.Ref != "#/$defs/"+f.typ.Elem().Name() {
				t.Errorf("%s: items are not %s", at, f.typ.Elem().Name())
				continue
			}
			holdToSchema(t, f.typ.Elem(), defs[f.typ.Elem().Name()], defs, at)
		case f.typ.Kind() == reflect.Pointer:
			if p.Ref != "#/$defs/"+f.typ.Elem().Name() {
				t.Errorf("%s: is not %s", at, f.typ.Elem().Name())
				continue
			}
			holdToSchema(t, f.typ.Elem(), defs[f.typ.Elem().Name()], defs, at)
			continue
		default:
			t.Fatalf("%s: a %s, which this test does not know", at, f.typ)
		}
		if !slices.Equal(types, []string{want}) {
			t.Errorf("%s: type %v, want %s", at, p.Type, want)
		}
		var enum []string
		for _, v := range p.Enum {
			if s, ok := v.(string); ok {
				enum = append(enum, s)
			}
		}
		if d := cmp.Diff(valuesOf(f.typ), enum); d != "" {
			t.Errorf("%s: values differ from Go's: %s", at, d)
		}
	}
	for name := range node.Properties {
		if !names[name] {
			t.Errorf("%s/%s: the JSON Schema has it, Go has not", where, name)
		}
	}
}

// valuesOf lists the values of a Go enum, nil for any other type.
func valuesOf(t reflect.Type) []string {
	texts := func(list any) (out []string) {
		for v := reflect.ValueOf(list); v.Len() > len(out); {
			out = append(out, v.Index(len(out)).String())
		}
		return out
	}
	switch t {
	case reflect.TypeFor[Action]():
		return texts(Actions)
	case reflect.TypeFor[Channel]():
		return texts(Channels)
	case reflect.TypeFor[Priority]():
		return texts(Priorities)
	case reflect.TypeFor[Status]():
		return texts(Statuses)
	case reflect.TypeFor[Kind]():
		return texts(Kinds)
	case reflect.TypeFor[Verdict]():
		return texts(Verdicts)
	}
	return nil
}

func TestGoAndJSONSchemaAgree(t *testing.T) {
	request := readSchema(t, "request.schema.json")
	holdToSchema(t, reflect.TypeFor[Request](), request, nil, "request")
	for name, bound := range map[string]int{
		"to": maxToBytes, "tenant": maxNameBytes, "class": maxNameBytes, "template": maxNameBytes, "provider": maxNameBytes,
		"idempotency_key": maxKeyBytes, "callback_url": maxURLBytes, "subject": maxLineBytes, "title": maxLineBytes,
		"from": maxLineBytes, "reply_to": maxLineBytes,
	} {
		if got := request.Properties[name].MaxLength; got != bound {
			t.Errorf("request/%s: maxLength %d, Go has %d", name, got, bound)
		}
	}
	if got := request.Properties["metadata"].MaxProperties; got != MaxMetadataPairs {
		t.Errorf("metadata: maxProperties %d, Go has %d", got, MaxMetadataPairs)
	}
	event := readSchema(t, "event.schema.json")
	holdToSchema(t, reflect.TypeFor[Event](), event, event.Defs, "event")
	for name := range event.Defs {
		if !slices.Contains([]string{"Source", "Decision", "Charge", "Ask", "Evidence", "Marker"}, name) {
			t.Errorf("event.schema.json defines %s, which Go does not hold it to", name)
		}
	}
}

func protoMessages(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{})}
	files, err := c.Compile(context.Background(), "weir.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

// holdToProto holds one Go struct to one message. enums are the fields that are
// text in Go and an enum in protobuf.
func holdToProto(t *testing.T, typ reflect.Type, m protoreflect.MessageDescriptor, where string) {
	names := map[string]bool{}
	for _, f := range goFields(typ) {
		names[f.name] = true
		at := where + "." + f.name
		p := m.Fields().ByName(protoreflect.Name(f.name))
		if p == nil {
			t.Errorf("%s: Go has it, weir.proto has not", at)
			continue
		}
		isMessage := func(name string) bool { return p.Message() != nil && string(p.Message().FullName()) == name }
		ok := false
		switch {
		case f.typ == reflect.TypeFor[Millis]():
			ok = isMessage("google.protobuf.Timestamp") && !p.IsList()
		case valuesOf(f.typ) != nil:
			ok = p.Enum() != nil && string(p.Enum().Name()) == f.typ.Name()
			if ok {
				holdEnum(t, f.typ, p.Enum())
			}
		case f.typ.Kind() == reflect.String:
			ok = p.Kind() == protoreflect.StringKind
		case f.typ.Kind() == reflect.Bool:
			ok = p.Kind() == protoreflect.BoolKind
		case f.typ.Kind() == reflect.Int32:
			ok = p.Kind() == protoreflect.Int32Kind
		case f.typ == reflect.TypeFor[*int32]():
			ok = p.Kind() == protoreflect.Int32Kind && p.HasOptionalKeyword()
		case f.typ.Kind() == reflect.Int, f.typ.Kind() == reflect.Int64:
			ok = p.Kind() == protoreflect.Int64Kind
		case f.typ == reflect.TypeFor[map[string]string]():
			ok = p.IsMap() && p.MapKey().Kind() == protoreflect.StringKind && p.MapValue().Kind() == protoreflect.StringKind
		case f.typ == reflect.TypeFor[map[string]map[string]Millis]():
			ok = p.IsMap() && p.MapValue().Message() != nil &&
				p.MapValue().Message().Fields().ByName("windows").MapValue().Message().FullName() == "google.protobuf.Timestamp"
		case f.typ.Kind() == reflect.Slice, f.typ.Kind() == reflect.Pointer:
			ok = isMessage("weir.v1."+f.typ.Elem().Name()) && p.IsList() == (f.typ.Kind() == reflect.Slice)
			if ok {
				holdToProto(t, f.typ.Elem(), p.Message(), at)
			}
		}
		if !ok {
			t.Errorf("%s: a %s in Go, %s in weir.proto", at, f.typ, p.Kind())
		}
	}
	for i := range m.Fields().Len() {
		if name := string(m.Fields().Get(i).Name()); !names[name] {
			t.Errorf("%s.%s: weir.proto has it, Go has not", where, name)
		}
	}
}

// holdEnum holds an enum's names and numbers to the list of Go's values, whose
// order the conversion relies on: 0 is the empty value, or the first.
func holdEnum(t *testing.T, typ reflect.Type, enum protoreflect.EnumDescriptor) {
	prefix := strings.ToUpper(typ.Name()) + "_"
	want := []string{prefix + "UNSPECIFIED"}
	for _, v := range valuesOf(typ) {
		if v == "" {
			want = []string{prefix + "SEND"}
			continue
		}
		want = append(want, prefix+strings.ToUpper(v))
	}
	var got []string
	for i := range enum.Values().Len() {
		v := enum.Values().ByNumber(protoreflect.EnumNumber(i))
		if v == nil {
			t.Errorf("enum %s has no number %d", enum.Name(), i)
			continue
		}
		got = append(got, string(v.Name()))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("enum %s: %s", enum.Name(), d)
	}
}

func TestGoAndProtoAgree(t *testing.T) {
	file := protoMessages(t)
	holdToProto(t, reflect.TypeFor[Request](), file.Messages().ByName("SendRequest"), "SendRequest")
	holdToProto(t, reflect.TypeFor[Event](), file.Messages().ByName("StatusEvent"), "StatusEvent")

	// The first message of the file is the one that serializers name with a
	// single 0 behind the schema id.
	if name := file.Messages().Get(0).Name(); name != "SendRequest" {
		t.Errorf("the first message is %s", name)
	}
	if got := weirpb.File_weir_proto.Messages().Len(); got != file.Messages().Len() {
		t.Errorf("weirpb has %d messages, weir.proto %d", got, file.Messages().Len())
	}
}

// The lists of values are all the constants there are.
func TestListsHoldEveryConstant(t *testing.T) {
	listed := map[string][]string{}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Action](), reflect.TypeFor[Channel](), reflect.TypeFor[Priority](),
		reflect.TypeFor[Status](), reflect.TypeFor[Kind](), reflect.TypeFor[Verdict](),
	} {
		listed[typ.Name()] = valuesOf(typ)
	}
	declared := map[string][]string{}
	reasons := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			v, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if typ, ok := spec.Type.(*ast.Ident); ok {
				declared[typ.Name] = append(declared[typ.Name], v)
			} else if id := spec.Names[0].Name; strings.HasPrefix(id, "Reason") {
				if reasons[v] != "" {
					t.Errorf("%s and %s are both %q", id, reasons[v], v)
				}
				reasons[v] = id
				if strings.Trim(v, "abcdefghijklmnopqrstuvwxyz_") != "" {
					t.Errorf("%s: %q is not snake_case", id, v)
				}
			}
			return true
		})
	}
	for name, want := range listed {
		got := declared[name]
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(got, want); d != "" {
			t.Errorf("%s: constants and list differ: %s", name, d)
		}
	}
	if len(reasons) < 20 {
		t.Errorf("found only %d reasons", len(reasons))
	}
}

func TestExamplesOfSchemasAreWhatWeirReads(t *testing.T) {
	request, compiled := readSchema(t, "request.schema.json"), compileSchema(t, "request.schema.json")
	actions := map[Action]bool{}
	for _, example := range request.Examples {
		if err := checkSchema(compiled, example); err != nil {
			t.Errorf("%s: %v", example, err)
		}
		q, err := DecodeRequestStrict(example)
		if err != nil {
			t.Errorf("%s: %v", example, err)
			continue
		}
		if err := q.Validate(testNow.Add(1e9)); err != nil {
			t.Errorf("%s: %v", example, err)
		}
		actions[q.Action] = true
	}
	if len(actions) < 4 {
		t.Errorf("examples show only %d actions", len(actions))
	}
	event, compiled := readSchema(t, "event.schema.json"), compileSchema(t, "event.schema.json")
	if len(event.Examples) < 2 {
		t.Error("too few examples of events")
	}
	for _, example := range event.Examples {
		if err := checkSchema(compiled, example); err != nil {
			t.Errorf("%s: %v", example, err)
		}
		e, err := DecodeEvent(example)
		if err != nil {
			t.Errorf("%s: %v", example, err)
			continue
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, example); err != nil {
			t.Fatal(err)
		}
		if got := AppendEvent(nil, e); string(got) != compact.String() {
			t.Errorf("an example is not as Weir writes it:\n%s\n%s", got, compact.String())
		}
	}
}

func TestValidRequestsMatchTheirSchema(t *testing.T) {
	s := compileSchema(t, "request.schema.json")
	rapid.Check(t, func(t *rapid.T) {
		b := RequestJSON(genValidSend().Draw(t, "request"))
		if err := checkSchema(s, b); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	})
}

// What the schema refuses, Weir refuses.
func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t, "request.schema.json")
	for _, body := range []string{
		`[]`, `{}`, `{"channel":"sms"}`, `{"channel":"fax","to":"a","body":"b"}`, `{"channel":"sms","to":"","body":"b"}`,
		`{"channel":"sms","to":null,"body":"b"}`, `{"channel":"sms","to":1,"body":"b"}`,
		`{"channel":"sms","to":"a","body":"b","x":1}`, `{"channel":"sms","to":"a","body":"b","class":"a b"}`,
		`{"channel":"sms","to":"a","body":"b","send_at":"tomorrow"}`, `{"channel":"sms","to":"a","body":"b","id":"17"}`,
		`{"channel":"sms","to":"a","template":"t","vars":{"a":null}}`, `{"channel":"sms","to":"a","template":"t","vars":{"":"a"}}`,
		`{"channel":"sms","to":"a","body":"b","callback_url":"ftp://a"}`, `{"action":"send","channel":"sms","to":"a","body":"b"}`,
		`{"action":"cancel","to":"a"}`, `{"action":"release","to":"a"}`, `{"action":"suppress"}`, `{"action":"record","to":"a","channel":"sms"}`,
		`{"channel":"sms","to":"a","body":"b","priority":"high"}`,
	} {
		if checkSchema(s, []byte(body)) == nil {
			t.Errorf("the schema permits %s", body)
		}
		q, err := DecodeRequestStrict([]byte(body))
		if err == nil {
			err = q.Validate(testNow)
		}
		if err == nil {
			t.Errorf("Weir permits %s", body)
		}
	}
}

func TestEventsMatchTheirSchema(t *testing.T) {
	s := compileSchema(t, "event.schema.json")
	full := benchEvent()
	full.Decision.Verdict = VerdictRefuse
	full.Decision.Evidence = []Evidence{{Limit: "verify", Scope: "a", Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: testNow}}
	full.Decision.Marker = &Marker{Since: map[string]map[string]Millis{"a": {"60s": testNow, "1h": 0}, "b": nil}}
	for _, e := range []*Event{{Kind: KindDecision}, full} {
		if err := checkSchema(s, AppendEvent(nil, e)); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{`{}`, `{"kind":"other","at":null}`, `{"kind":"status","at":1}`, `{"kind":"status","at":null,"status":"lost"}`,
		`{"kind":"decision","at":null,"decision":{"verdict":"maybe","partition":1,"seq":1,"t":null,"revision":1}}`,
		`{"kind":"decision","at":null,"decision":{"verdict":"admit","partition":1,"seq":1,"t":null,"revision":1,"charges":[{"limit":"a"}]}}`} {
		if checkSchema(s, []byte(bad)) == nil {
			t.Errorf("the schema permits %s", bad)
		}
	}
}
