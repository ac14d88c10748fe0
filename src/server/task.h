// SPDX-License-Identifier: Apache-2.0
// The coroutine type of everything that waits for a client or for the engine.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace hasten::server {

/// A coroutine on its connection's strand: its code never runs on two threads at once. When the
/// client goes away, what it waits for throws, and unwinding cleans up.
template <class T = void>
using Task = boost::asio::awaitable<T>;

}  // namespace hasten::server
