# SPDX-License-Identifier: Apache-2.0
# The layers, from top to bottom, and what each may use.  The one place where this is written down:
# the Makefile links by it (a test gets the archives of its layer's closure and no others) and
# tests/checks/layers.py holds every #include line to it.

LAYERS := cmd sim embed config kube http sched codec state core base

# uses_L: the layers whose headers L may include.
uses_base   := base
uses_core   := base core
uses_state  := base core state
uses_codec  := base core codec
uses_sched  := base core state sched
uses_http   := base core codec sched http
uses_kube   := base core codec sched kube
uses_config := base core config
uses_embed  := base core codec sched embed
uses_sim    := base core state sim
uses_cmd    := $(LAYERS)

# pkgs_L: the libraries L is compiled and linked with, by their pkg-config names.
pkgs_codec  := json-c
pkgs_http   := libmicrohttpd gnutls
pkgs_kube   := libcurl
pkgs_config := yaml-0.1
pkgs_embed  := yaml-0.1

# foreign_L: the headers from outside the C library that L may include; a trailing slash takes a
# whole directory.
foreign_base   := pthread.h
foreign_state  := pthread.h
foreign_codec  := json-c/
foreign_sched  := pthread.h
foreign_http   := pthread.h microhttpd.h gnutls/
foreign_kube   := pthread.h curl/
foreign_config := yaml.h
foreign_embed  := pthread.h yaml.h
foreign_cmd    := pthread.h

# The headers of the C library itself, free for every layer but core, which computes and does no I/O.
libc_core := assert.h errno.h inttypes.h limits.h stdarg.h stdbool.h stddef.h stdint.h stdio.h \
             math.h stdlib.h string.h
libc := $(libc_core) ctype.h dirent.h fcntl.h getopt.h locale.h netdb.h poll.h setjmp.h \
        signal.h stdalign.h stdatomic.h stdnoreturn.h strings.h sysexits.h syslog.h termios.h \
        time.h unistd.h arpa/ linux/ net/ netinet/ sys/
