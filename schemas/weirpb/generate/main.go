// Command generate writes weirpb/weir.pb.go from weir.proto. It runs
// protocompile and protoc-gen-go, both at the versions of go.mod, in this
// process, so that neither protoc nor a plugin need be installed.
//
//	go generate ./schemas
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate FILE.proto OUT.pb.go")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(source, out string) error {
	code, err := generate(source)
	if err != nil {
		return err
	}
	return os.WriteFile(out, code, 0o644)
}

// generate returns the Go code of one .proto file.
func generate(source string) ([]byte, error) {
	dir, name := filepath.Split(source)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	files, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", name, err)
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("paths=source_relative"),
	}
	addFiles(request, files[0], map[string]bool{})

	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	internal_gengo.GenerateFile(plugin, plugin.FilesByPath[name])
	response := plugin.Response()
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return []byte(response.File[0].GetContent()), nil
}

// addFiles adds a file behind everything it imports, as the plugin protocol
// demands.
func addFiles(request *pluginpb.CodeGeneratorRequest, file protoreflect.FileDescriptor, done map[string]bool) {
	if done[file.Path()] {
		return
	}
	done[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		addFiles(request, imports.Get(i).FileDescriptor, done)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}
