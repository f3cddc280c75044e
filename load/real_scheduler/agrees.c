/* agrees PORT: a scheduler extender on 127.0.0.1 to which every node is right, and no node better than another.
 *
 * A filter's answer are the names of its question, a prioritize's is empty, and binding is the scheduler's own. It looks at nothing:
 * what kube-scheduler reaches with it is the most that it reaches with any extender. A thread for each connection, keep-alive, no
 * pipelining; kube-scheduler writes NodeNames last, so they are what stands between the last brackets of a question.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_REQUEST = 1 << 22, MOST_PARTS = 4 };

static int write_parts(int fd, struct iovec *parts, int count)
{
    while (count > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0)
            return -1;
        while (count > 0 && (size_t)sent >= parts->iov_len)
            sent -= (ssize_t)parts->iov_len, parts++, count--;
        if (count > 0)
            parts->iov_base = (char *)parts->iov_base + sent, parts->iov_len -= (size_t)sent;
    }
    return 0;
}

/* Answer what was asked; the body is ended by a 0. */
static int respond(int fd, const char *head, char *body)
{
    static const char before[] = "{\"Nodes\":null,\"NodeNames\":", after[] = ",\"FailedNodes\":null,\"Error\":\"\"}";
    char *first = strrchr(body, '['), *last = strrchr(body, ']');
    struct iovec parts[MOST_PARTS] = {{0}, {(void *)before, sizeof before - 1}, {first, 0}, {(void *)after, sizeof after - 1}};
    int count = MOST_PARTS;
    size_t length = 0;
    if (strncmp(head, "POST", 4) != 0 || strstr(head, "/prioritize") != NULL)
        parts[1].iov_base = "[]", parts[1].iov_len = 2, count = 2;
    else if (first == NULL || last < first)
        return -1;
    else
        parts[2].iov_len = (size_t)(last + 1 - first);
    for (int at = 1; at < count; at++)
        length += parts[at].iov_len;
    char lines[128];
    parts[0].iov_base = lines;
    parts[0].iov_len = (size_t)snprintf(
        lines, sizeof lines, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", length);
    return write_parts(fd, parts, count);
}

static void *serve(void *connection)
{
    int fd = (int)(intptr_t)connection, yes = 1;
    char *request = malloc(MOST_REQUEST + 1);
    size_t size = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    while (request != NULL && size < MOST_REQUEST) {
        ssize_t got = recv(fd, request + size, MOST_REQUEST - size, 0);
        if (got <= 0)
            break;
        size += (size_t)got;
        request[size] = 0;
        char *end = strstr(request, "\r\n\r\n");
        if (end == NULL)
            continue;
        *end = 0;
        char *length = strcasestr(request, "\r\ncontent-length:"), *body = end + 4;
        size_t wanted = length != NULL ? strtoull(length + 17, NULL, 10) : 0;
        if (size - (size_t)(body - request) < wanted) {
            *end = '\r';
            continue;
        }
        if (respond(fd, request, body) < 0)
            break;
        size = 0;
    }
    free(request);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons(argc > 1 ? (unsigned short)atoi(argv[1]) : 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 64) < 0) {
        perror("agrees");
        return 1;
    }
    for (;;) {
        pthread_t thread;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
    }
}
