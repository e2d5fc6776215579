"""instruction_following: does an answer follow instructions that can be checked by rules?"""
