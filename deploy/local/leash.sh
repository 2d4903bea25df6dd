# Runs a program that must not outlive the process at the other end of stdin.
# Arguments: seconds of grace, a directory to remove at the end or "", the program.
# At the end of stdin the program gets SIGTERM and, after the grace, SIGKILL; with
# no grace SIGKILL at once.
grace=$1 remove=$2
shift 2
exec 3<&0
"$@" </dev/null 3<&- &
pid=$!
{
	cat <&3 >/dev/null 2>&1
	if [ "$grace" -gt 0 ]; then
		kill -TERM $pid 2>/dev/null
		while [ "$grace" -gt 0 ] && kill -0 $pid 2>/dev/null; do
			sleep 1
			grace=$((grace - 1))
		done
	fi
	kill -KILL $pid 2>/dev/null
} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait $pid 2>/dev/null
code=$?
kill -KILL $watcher 2>/dev/null
if [ -n "$remove" ]; then
	rm -rf "$remove"
	rmdir "$(dirname "$remove")" 2>/dev/null
fi
exit $code
