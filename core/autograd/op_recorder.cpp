#include "core/autograd/op_recorder.h"

#include "core/autograd/node.h"

namespace booster {

void note_result(const char* name, std::span<const Tensor> inputs,
                 std::span<const Tensor> outputs) {
  op_recorder->op_returned({name, inputs, outputs, {}, true});
}

void note_op(const char* name, std::initializer_list<Tensor> inputs,
             std::initializer_list<Tensor> outputs, std::initializer_list<OpAttribute> attributes) {
  op_recorder->op_returned({name,
                            {inputs.begin(), inputs.size()},
                            {outputs.begin(), outputs.size()},
                            {attributes.begin(), attributes.size()}});
}

void note_op(const char* name, const std::vector<Tensor>& inputs,
             const std::vector<Tensor>& outputs, std::initializer_list<OpAttribute> attributes) {
  op_recorder->op_returned({name, inputs, outputs, {attributes.begin(), attributes.size()}});
}

}  // namespace booster
