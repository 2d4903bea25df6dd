package local

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version of Apache Kafka; pom.xml and jars.sha256 hold the same.
const Version = "4.3.1"

// javaLeast is the oldest Java that Kafka 4 brokers run on.
const javaLeast = 17

// copyJars is pinned, so that Maven's version does not choose the plugin's.
const copyJars = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

//go:embed pom.xml
var pom []byte

// sums is the output of sha256sum over all jars. To renew it after a change of
// pom.xml: run mvn with copyJars by hand, look at what changed, and commit
// `sha256sum *.jar`.
//
//go:embed jars.sha256
var sums string

// jars are what one program consists of.
type jars struct {
	name string // for people
	dir  string // below the cache
	size string // to fetch
	pom  []byte
	sums string
}

var kafka = jars{"Apache Kafka " + Version, "kafka-" + Version, "43 MB", pom, sums}

// MissingTool is the error for a program that this package needs and the machine
// lacks.
type MissingTool struct {
	Name    string // java, mvn
	Problem string // what was found instead
	Install string // what to do about it
}

func (e *MissingTool) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Name, e.Problem, e.Install)
}

// WrongSum is the error for jars that are not those that were committed to.
type WrongSum struct {
	Files []string // each with what is wrong with it
}

func (e *WrongSum) Error() string {
	return "the jars are not the pinned ones: " + strings.Join(e.Files, ", ")
}

// CacheDir is where jars are kept: WEIR_CACHE_DIR, or weir in the user's cache.
func CacheDir() (string, error) {
	if dir := os.Getenv("WEIR_CACHE_DIR"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache directory (WEIR_CACHE_DIR names another): %w", err)
	}
	return filepath.Join(dir, "weir"), nil
}

// Ensure returns the directory of Kafka's jars below cacheDir ("" is CacheDir),
// each checked against its pinned sum. It fetches them with Maven if they are not
// there or not the pinned ones, and then says so on progress (which may be nil).
// The error is a *MissingTool where Java 17 or Maven is missing, and a *WrongSum
// where what came is not what was pinned; then nothing is installed.
func Ensure(ctx context.Context, cacheDir string, progress io.Writer) (libDir string, err error) {
	return kafka.ensure(ctx, cacheDir, progress)
}

func (j jars) ensure(ctx context.Context, cacheDir string, progress io.Writer) (libDir string, err error) {
	if progress == nil {
		progress = io.Discard
	}
	if cacheDir == "" {
		if cacheDir, err = CacheDir(); err != nil {
			return "", err
		}
	}
	if _, err := Java(ctx); err != nil {
		return "", err
	}
	libDir = filepath.Join(cacheDir, j.dir)
	if checkSums(libDir, j.sums) == nil {
		return libDir, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", &MissingTool{Name: "mvn", Problem: "not found", Install: "install Maven 3 (apt-get install maven, brew install maven) to fetch the jars of " + j.name}
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	// On the same file system, so that the last step is a rename.
	temp, err := os.MkdirTemp(cacheDir, "fetch-*")
	if err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	defer os.RemoveAll(temp)

	fmt.Fprintf(progress, "fetching %s with mvn (%s)\n", j.name, j.size)
	began := time.Now()
	if err := os.WriteFile(filepath.Join(temp, "pom.xml"), j.pom, 0o644); err != nil {
		return "", fmt.Errorf("fetch %s: %w", j.name, err)
	}
	fetch := exec.CommandContext(ctx, mvn, "-q", "-B", copyJars, "-DincludeScope=runtime", "-DoutputDirectory=lib")
	fetch.Dir = temp
	fetch.WaitDelay = time.Second
	if out, err := fetch.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch %s with mvn: %w: %s", j.name, cmp.Or(context.Cause(ctx), err), lastOf(out))
	}
	lib := filepath.Join(temp, "lib")
	if err := checkSums(lib, j.sums); err != nil {
		return "", err
	}
	if err := os.RemoveAll(libDir); err != nil {
		return "", fmt.Errorf("install %s: %w", j.name, err)
	}
	if err := os.Rename(lib, libDir); err != nil && checkSums(libDir, j.sums) != nil {
		// A failed rename with good jars in place is another process's work.
		return "", fmt.Errorf("install %s: %w", j.name, err)
	}
	fmt.Fprintf(progress, "fetched in %v, kept in %s\n", time.Since(began).Round(100*time.Millisecond), libDir)
	return libDir, nil
}

// checkSums compares a directory with pinned sums: every jar, and no other.
func checkSums(dir, sums string) error {
	want := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(sums)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			return fmt.Errorf("jars.sha256: malformed line %q", lines.Text())
		}
		want[name] = sum
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("check the jars: %w", err)
	}
	var wrong []string
	for _, e := range entries {
		sum, ok := want[e.Name()]
		if !ok {
			wrong = append(wrong, e.Name()+" is not in the list")
			continue
		}
		delete(want, e.Name())
		got, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("check the jars: %w", err)
		}
		if got != sum {
			wrong = append(wrong, e.Name()+" has sum "+got)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		wrong = append(wrong, name+" is missing")
	}
	if len(wrong) > 0 {
		return &WrongSum{Files: wrong}
	}
	return nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// Java returns the path of a Java that is new enough: JAVA_HOME's, or the PATH's.
func Java(ctx context.Context) (string, error) {
	install := fmt.Sprintf("install a Java runtime %d or newer (apt-get install openjdk-%d-jre-headless, brew install openjdk)", javaLeast, javaLeast)
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &MissingTool{Name: "java", Problem: "not found as " + name, Install: install}
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	m := javaVersion.FindSubmatch(out)
	if err != nil || m == nil {
		return "", &MissingTool{Name: "java", Problem: fmt.Sprintf("%s -version fails: %s", path, lastOf(out)), Install: install}
	}
	if major, _ := strconv.Atoi(string(m[1])); major < javaLeast {
		return "", &MissingTool{Name: "java", Problem: fmt.Sprintf("%s is version %d", path, major), Install: install}
	}
	return path, nil
}

// lastOf returns the end of a program's output, for an error.
func lastOf(out []byte) string {
	const most = 2 << 10
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return text
}

// IsMissingTool tells whether err says that this machine lacks Java or Maven.
func IsMissingTool(err error) bool {
	_, ok := errors.AsType[*MissingTool](err)
	return ok
}
