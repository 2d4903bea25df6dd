// Package policy reads and writes weir.config: the revisions of the policy, in
// the order of the log. A revision counts only if it names the one in force as
// its parent; so of two concurrent edits the first in the log wins, for every
// reader alike, without a lock.
//
// It does not decide when a partition switches to a revision: admission does,
// with a marker in its deciding transaction. It does not validate: apply does.
package policy
