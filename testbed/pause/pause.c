/* The process that holds a pod's network namespace. It does nothing until it is told to end.
 *
 * C and not Rust because it is compiled with one call of musl-gcc when the images are made, and the
 * file that comes out is 20 kB. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    sigset_t signals;
    int signal;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    /* As process 1 of its namespace it would not be ended by a signal it has no handler for, so it waits for them. */
    sigprocmask(SIG_BLOCK, &signals, 0);
    for (;;) {
        if (sigwait(&signals, &signal) != 0) {
            return 1;
        }
        if (signal != SIGCHLD) {
            return 0;
        }
        /* With a shared process namespace, orphans of the pod's containers become its children. */
        while (waitpid(-1, 0, WNOHANG) > 0) {
        }
    }
}
