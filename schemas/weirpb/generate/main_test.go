package main

import (
	"bytes"
	"os"
	"testing"
)

// The committed code is what the committed .proto and go.mod's generator give.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	want, err := generate("../../weir.proto")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../weir.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("weirpb/weir.pb.go is not what weir.proto gives: run `go generate ./schemas`")
	}
}
