// Package child runs a part of this program as a child process that outlives a
// killed parent just long enough to end in good order.
//
// The parent executes its own binary again. Three pipes join the two:
//
//	stdin   parent -> child   carries nothing but "stop"; its end means the parent is gone
//	fd 3    child -> parent   one line, the address, once the role is ready
//	stderr  child -> parent   the child's log; its last lines explain an early exit
//
// A child is in a process group of its own, so a terminal's Ctrl-C reaches the
// parent alone, which then drains before it stops its children.
//
// What it does not do: it does not restart a child that died, does not limit its
// resources, and carries no requests: those go over the address.
package child
