//go:build !(linux && amd64)

package engine

// There is no library to load here; these satisfy the code that would use it.

const classReadOnly = 0

type library struct{}

func loadLibrary(string) (*library, error) { return nil, ErrUnsupported }

func (*library) connect([]string) (*connection, error) { return nil, ErrUnsupported }

type connection struct{}

func (*connection) close() {}

func (*connection) classify(string) (class, statements uint32) { return 0, 0 }

type param struct{ name, value string }

func (*connection) query(string, string, []param) (*result, error) { return nil, ErrUnsupported }

type result struct{}

func (*result) bytes() []byte { return nil }
func (*result) stats() stats  { return stats{} }
func (*result) close()        {}

func keepSignalHandlers(open func() error) error { return open() }
