// Package engine is the embedded ClickHouse of `weir dev` and of the tests:
// libchdb, loaded into a child process that speaks ClickHouse's HTTP interface
// on a loopback address. The same clickhouse-go code therefore serves
// development, tests and production.
//
//	Ensure   finds the library, or fetches it once with npm and checks its sum
//	Start    runs the engine as a child process and waits until it answers
//	Serve    is what that child runs
//
// What it does not do: it is for development, not for production. It has no
// users and no passwords: the address must be loopback, what a page of another
// site makes a browser send is refused, whatever the method (localOnly), and so is
// every statement that would read or write outside the data directory: files,
// addresses, programs (guard). It has no native protocol, no HTTP sessions, no
// external tables, no TLS, no replication. A result is held in memory whole
// before its first byte is answered, so an error always has its HTTP code.
// There is a build for linux on amd64 with glibc only: elsewhere Ensure and
// Serve return ErrUnsupported, and `weir dev` points at --clickhouse-url.
//
// # Non-obvious
//
//   - Every request has an engine connection of its own (0.1 ms to open): SET,
//     USE and temporary tables end with it, as they do on a server. One more
//     connection stays open throughout, because closing the last one shuts the
//     engine down.
//   - The engine replaces the process's handlers of the deadly signals. The Go
//     runtime needs its own (a nil dereference is a SIGSEGV it turns into a
//     panic), so they are put back at once.
//   - The engine's users and their grants are built in, and it reads every file
//     that the process may read. So statements are judged by their tokens; what is
//     split in another way than the engine does is refused. Rows of the format Values
//     may have expressions, which are in no statement: the engine evaluates them only
//     where the guard has judged the rows.
//   - Its database default looks among the machine's files for a table that it does
//     not have (SELECT * FROM '/etc/hostname'). It is replaced at each start.
//   - An insert's data goes to a file and is read with FROM INFILE: data inside
//     the statement would end at the first blank line.
//   - The engine writes the Native format as of revision 0, clickhouse-go reads
//     as of the revision that the server claims. So the handshake, which it
//     always reads as of its own revision, is written here and claims 0.
package engine
