// SPDX-License-Identifier: Apache-2.0
// GET / and its parts: the chat page of web/, built into the binary.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "server/handlers.h"

// The bytes of the files, placed by hasten_embed in CMakeLists.txt.
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none.
#define HASTEN_WEB_FILE(symbol)            \
  extern "C" const unsigned char symbol[]; \
  extern "C" const unsigned char symbol##_end[]
// NOLINTEND(bugprone-macro-parentheses)
HASTEN_WEB_FILE(hasten_web_index_html);
HASTEN_WEB_FILE(hasten_web_style_css);
HASTEN_WEB_FILE(hasten_web_app_js);
HASTEN_WEB_FILE(hasten_web_api_js);
HASTEN_WEB_FILE(hasten_web_markdown_js);
HASTEN_WEB_FILE(hasten_web_icon_svg);
#undef HASTEN_WEB_FILE

namespace hasten::server {
namespace {

// The page talks to this server only and runs no script but its own, whatever a model writes.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct WebFile {
  std::string_view path;
  std::string_view content_type;
  const unsigned char* begin;
  const unsigned char* end;
};

constexpr std::string_view kScript = "text/javascript; charset=utf-8";
const std::array kFiles = {
    WebFile{"/", "text/html; charset=utf-8", hasten_web_index_html, hasten_web_index_html_end},
    WebFile{"/style.css", "text/css; charset=utf-8", hasten_web_style_css,
            hasten_web_style_css_end},
    WebFile{"/app.js", kScript, hasten_web_app_js, hasten_web_app_js_end},
    WebFile{"/api.js", kScript, hasten_web_api_js, hasten_web_api_js_end},
    WebFile{"/markdown.js", kScript, hasten_web_markdown_js, hasten_web_markdown_js_end},
    WebFile{"/icon.svg", "image/svg+xml", hasten_web_icon_svg, hasten_web_icon_svg_end},
};

}  // namespace

Task<> web_page(Context&, Exchange& exchange) {
  const auto* file = std::find_if(kFiles.begin(), kFiles.end(), [&exchange](const WebFile& known) {
    return known.path == exchange.request().path;
  });
  HASTEN_CHECK(file != kFiles.end());
  HttpResponse response{.content_type = std::string(file->content_type),
                        .headers = {{"Content-Security-Policy", std::string(kContentPolicy)},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cache-Control", "no-cache"}},
                        .body = std::string(reinterpret_cast<const char*>(file->begin),
                                            static_cast<std::size_t>(file->end - file->begin))};
  co_await exchange.respond(std::move(response));
}

}  // namespace hasten::server
