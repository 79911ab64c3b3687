# SPDX-License-Identifier: Apache-2.0
"""The stage of the end-to-end stories: a real control plane, and ways to act on it and to look.

  parts       where the binaries are
  process     one child process with a log, and how it ends
  pki         certificates, by openssl
  plane       etcd, kube-apiserver, kube-scheduler, kube-controller-manager on loopback
  scheduler   the scheduler configurations that deploy/ ships, pointed at this stage
  api         requests to the API server
  objects     manifests
  cluster     what a story does: create nodes and pods, play the kubelet, wait, read events
  extender    our daemon
  caller      calls of its verbs
  replica     our daemon as one of several, each in a Pod; what plays kubelet and kube-proxy for it
  proxy       its way to the API server, on which a story holds, loses and cuts
  checker     judges the end state from nothing but what the API server holds
"""
