package local

import (
	"context"
	_ "embed"
	"io"
)

// LibphonenumberVersion is that of libphonenumber/pom.xml and its jars.sha256.
const LibphonenumberVersion = "9.0.31"

//go:embed libphonenumber/pom.xml
var libphonenumberPom []byte

//go:embed libphonenumber/jars.sha256
var libphonenumberSums string

var libphonenumber = jars{"Google's libphonenumber " + LibphonenumberVersion, "libphonenumber-" + LibphonenumberVersion, "0.7 MB", libphonenumberPom, libphonenumberSums}

// EnsureLibphonenumber is Ensure for the phone library that processor/recipient is
// compared with.
func EnsureLibphonenumber(ctx context.Context, cacheDir string, progress io.Writer) (libDir string, err error) {
	return libphonenumber.ensure(ctx, cacheDir, progress)
}
