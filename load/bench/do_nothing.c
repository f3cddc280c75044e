/* do_nothing PORT: an HTTP server on 127.0.0.1 that reads a request whole and answers as many bytes as the path says.
 *
 * "POST /6144 HTTP/1.1" is answered by 6,144 bytes made beforehand. It looks at nothing but the path and Content-Length: what
 * it takes is the floor of any server in any language on this machine. One thread, epoll, keep-alive, no pipelining.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 1024, MOST_HEAD = 8192, READ_SIZE = 1 << 18, MOST_ANSWER = 1 << 24 };

struct connection {
    char head[MOST_HEAD + 1]; /* what has come of the head */
    size_t head_size;
    size_t body_left; /* of a request whose head is read */
    size_t answer_size;
    int is_in_body;
};

static struct connection connections[MOST_CONNECTIONS];
static char chunk[READ_SIZE];
static char answer[MOST_ANSWER];

static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return -1;
        data += sent, size -= (size_t)sent;
    }
    return 0;
}

static int respond(int fd, size_t size)
{
    char head[128];
    int length = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\ncontent-type: application/json\r\n\r\n", size);
    struct iovec parts[2] = {{head, (size_t)length}, {answer, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < length) /* the head alone always fits into an empty socket */
        return -1;
    return write_all(fd, answer + (sent - length), size - (size_t)(sent - length));
}

/* Read the head where it is whole; -1 for one that is no request of ours. */
static int read_head(struct connection *one)
{
    one->head[one->head_size] = 0;
    char *end = strstr(one->head, "\r\n\r\n");
    if (end == NULL)
        return one->head_size == MOST_HEAD ? -1 : 0;
    char *length = strcasestr(one->head, "\r\ncontent-length:");
    char *path = strchr(one->head, '/');
    size_t had = one->head_size - (size_t)(end + 4 - one->head);
    one->body_left = length != NULL && length < end ? strtoull(length + 17, NULL, 10) : 0;
    one->answer_size = path != NULL ? strtoull(path + 1, NULL, 10) : 0;
    if (had > one->body_left || one->answer_size > MOST_ANSWER)
        return -1;
    one->body_left -= had;
    one->is_in_body = 1;
    return 0;
}

/* Some bytes have come; -1 when the connection is over. */
static int on_readable(int fd)
{
    struct connection *one = &connections[fd];
    if (one->is_in_body) {
        ssize_t got = recv(fd, chunk, one->body_left < READ_SIZE ? one->body_left : READ_SIZE, 0);
        if (got <= 0)
            return -1;
        one->body_left -= (size_t)got;
    } else {
        ssize_t got = recv(fd, one->head + one->head_size, MOST_HEAD - one->head_size, 0);
        if (got <= 0)
            return -1;
        one->head_size += (size_t)got;
        if (read_head(one) < 0)
            return -1;
    }
    if (!one->is_in_body || one->body_left > 0)
        return 0;
    one->head_size = 0, one->is_in_body = 0;
    return respond(fd, one->answer_size);
}

static void take(int events, int listener)
{
    int yes = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (fd >= MOST_CONNECTIONS) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    memset(&connections[fd], 0, sizeof connections[fd]);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(events, EPOLL_CTL_ADD, fd, &wanted);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0), events = epoll_create1(0);
    address.sin_port = htons(argc > 1 ? (unsigned short)atoi(argv[1]) : 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 512) < 0) {
        perror("do_nothing");
        return 1;
    }
    memset(answer, ' ', sizeof answer);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listener}, ready[64];
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &wanted);
    for (;;) {
        int count = epoll_wait(events, ready, 64, -1);
        for (int at = 0; at < count; at++) {
            int fd = ready[at].data.fd;
            if (fd == listener)
                take(events, listener);
            else if (on_readable(fd) < 0)
                close(fd);
        }
    }
}
