# SPDX-License-Identifier: Apache-2.0
# hasten_embed(<target> <symbol> <file>): builds the bytes of a file into a target, 64-byte aligned.
#
# The bytes are declared as: extern "C" const unsigned char <symbol>[]; and <symbol>_end[].
function(hasten_embed target symbol file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embed_${symbol}.S)
  # .balign 64: GGUF tensors are aligned relative to the start of their file.
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
        .section .rodata
        .balign 64
        .global @symbol@
        .global @symbol@_end
@symbol@:
        .incbin "@file@"
@symbol@_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
]])
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${file})
  target_sources(${target} PRIVATE ${source})
endfunction()
