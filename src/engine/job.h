// SPDX-License-Identifier: Apache-2.0
// Job: a request while the engine works on it, with its answers in the making.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/admission.h"
#include "engine/answer_text.h"
#include "engine/sequence/sequence.h"
#include "engine/sequence/sequence_pool.h"
#include "engine/ticket.h"
#include "hasten/request.h"

namespace hasten::engine {

/// One of a job's n answers.
struct Answer {
  Answer(SequencePool& pool, const text::Tokenizer& tokenizer, bool show_special,
         const StopStrings& stop)
      : owned(pool.make()), sequence(*owned), text(tokenizer, show_special, stop) {}

  const SequencePool::Pointer owned;  // side by side with those of other answers
  Sequence& sequence;
  AnswerText text;
  Chunk chunk;            // what the present step adds
  bool finished = false;  // its chunk with a Finish is on its way or delivered
};

/// Does not move: sequences and matchers point into it. However it goes, nobody waits for it after.
struct Job {
  Job(int64_t id_, Request request_, std::shared_ptr<Ticket> ticket_, Admission::Place place_)
      : id(id_),
        request(std::move(request_)),
        ticket(std::move(ticket_)),
        place(std::move(place_)),
        stop(request.stop) {}
  ~Job() { ticket->close(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const int64_t id;       // ascending in order of submission
  const Request request;  // with a seed
  const std::shared_ptr<Ticket> ticket;
  Admission::Place place;  // in the queue, until it starts
  const StopStrings stop;
  std::vector<int32_t> end_tokens;               // that end an answer, from min_tokens on
  std::vector<std::unique_ptr<Answer>> answers;  // [n]
  int32_t num_finished = 0;                      // answers
  bool ended = false;                            // nothing more is delivered
  std::string error;                             // why the job must end; empty: all is well
  Usage usage;
  int64_t submit_us = 0;        // monotonic time
  int64_t start_us = -1;        // of the first step; -1: waiting
  int64_t first_token_us = -1;  // -1: none yet
};

}  // namespace hasten::engine
