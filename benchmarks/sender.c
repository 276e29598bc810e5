/* The cheapest load: connections that send ready-made requests, and count the replies.

       sender SECONDS WINDOW FD... < requests

   FD... are blocking sockets whose sessions are open. Standard input has, for each of them, a count (4 bytes,
   the highest first) and that many frames, which the socket sends again and again: WINDOW at first, then one
   for each reply. Standard output gets one line: replies, error replies, seconds, processor seconds.
   benchmarks/sender.py compiles and runs this program. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { LENGTH = 4, HEADER = 20, READ = 1 << 16 }; /* a frame length; with xid, zxid and error */

struct client {
    int fd;
    uint32_t count, next;          /* frames, and the one that is sent next */
    unsigned char **frames;        /* each with its length before it */
    unsigned char header[HEADER];  /* of the reply that is arriving */
    size_t got, left;              /* bytes of the header that are there; bytes after it that are not */
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint32_t number(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void take(void *into, size_t size) {
    if (fread(into, 1, size, stdin) != size) {
        fprintf(stderr, "standard input ends too early\n");
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Send frames in one call each READ bytes at most. */
static void send_frames(struct client *client, long frames) {
    static unsigned char data[READ];
    while (frames) {
        size_t size = 0;
        while (frames) {
            unsigned char *frame = client->frames[client->next];
            size_t more = LENGTH + number(frame);
            if (size && size + more > READ)
                break;
            memcpy(data + size, frame, more);
            size += more;
            client->next = (client->next + 1) % client->count;
            frames--;
        }
        for (size_t sent = 0; sent < size;) {
            ssize_t done = send(client->fd, data + sent, size - sent, MSG_NOSIGNAL);
            if (done < 0)
                fail("send");
            sent += (size_t)done;
        }
    }
}

/* Count the replies that end in some bytes. */
static long receive(struct client *client, const unsigned char *data, size_t size, long *errors) {
    long replies = 0;
    while (size) {
        size_t part;
        if (client->got < HEADER) {
            part = HEADER - client->got < size ? HEADER - client->got : size;
            memcpy(client->header + client->got, data, part);
            client->got += part;
            if (client->got == HEADER) {
                client->left = number(client->header) + LENGTH - HEADER;
                *errors += number(client->header + 16) != 0;
            }
        } else {
            part = client->left < size ? client->left : size;
            client->left -= part;
        }
        data += part;
        size -= part;
        if (client->got == HEADER && !client->left) {
            client->got = 0;
            replies++;
        }
    }
    return replies;
}

int main(int argc, char **argv) {
    static unsigned char data[READ];
    struct epoll_event events[1024];
    struct rusage usage;
    long window, replies = 0, errors = 0;
    int count = argc - 3, poller = epoll_create1(0);
    if (count < 1 || poller < 0)
        fail("sender SECONDS WINDOW FD...");
    window = atol(argv[2]);
    struct client *clients = calloc((size_t)count, sizeof *clients);
    for (int i = 0; i < count; i++) {
        struct client *client = &clients[i];
        unsigned char length[LENGTH];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
        client->fd = atoi(argv[i + 3]);
        take(length, LENGTH);
        client->count = number(length);
        client->frames = calloc(client->count, sizeof *client->frames);
        for (uint32_t frame = 0; frame < client->count; frame++) {
            take(length, LENGTH);
            client->frames[frame] = malloc(LENGTH + number(length));
            memcpy(client->frames[frame], length, LENGTH);
            take(client->frames[frame] + LENGTH, number(length));
        }
        if (epoll_ctl(poller, EPOLL_CTL_ADD, client->fd, &event))
            fail("epoll_ctl");
    }
    double begun = now(), end = begun + atof(argv[1]);
    for (int i = 0; i < count; i++)
        send_frames(&clients[i], window);
    for (long waiting = window * count; waiting;) {
        int ready = epoll_wait(poller, events, 1024, 60000);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            fail("no reply within 60 s");
        int more = now() < end;
        for (int i = 0; i < ready; i++) {
            struct client *client = events[i].data.ptr;
            ssize_t size = recv(client->fd, data, READ, MSG_DONTWAIT);
            if (size <= 0)
                fail("the server has closed a connection");
            long done = receive(client, data, (size_t)size, &errors);
            replies += done;
            waiting -= done;
            if (more && done) {
                send_frames(client, done);
                waiting += done;
            }
        }
    }
    end = now();
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld %ld %.6f %.6f\n", replies, errors, end - begun,
           usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
               + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    return 0;
}
